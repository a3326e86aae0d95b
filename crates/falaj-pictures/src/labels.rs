//! Free places for labels among the lines of a panel, in pixels.

/// A point.
pub(crate) type Pixel = (i32, i32);

/// A rectangle: left, top, right and bottom edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rect {
    pub(crate) left: i32,
    pub(crate) top: i32,
    pub(crate) right: i32,
    pub(crate) bottom: i32,
}

impl Rect {
    /// The square around a point.
    pub(crate) fn around((x, y): Pixel, half: i32) -> Rect {
        Rect { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    fn grown(self, by: i32) -> Rect {
        Rect {
            left: self.left - by,
            top: self.top - by,
            right: self.right + by,
            bottom: self.bottom + by,
        }
    }

    fn overlaps(self, other: Rect) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn contains(self, other: Rect) -> bool {
        self.left <= other.left
            && other.right <= self.right
            && self.top <= other.top
            && other.bottom <= self.bottom
    }

    /// The end of a leader from a point to this label. The width of a label is only estimated, so a
    /// leader from above or below stays away from its corners.
    fn end_of_leader(self, (x, y): Pixel) -> Pixel {
        let beside = (self.top..=self.bottom).contains(&y);
        let inset = if beside { 0 } else { (self.right - self.left) / 5 };
        (x.clamp(self.left + inset, self.right - inset), y.clamp(self.top, self.bottom))
    }

    /// Returns true if a segment has a point within the rectangle (Liang and Barsky, 1984).
    pub(crate) fn meets(self, [a, b]: [Pixel; 2]) -> bool {
        let (dx, dy) = (f64::from(b.0 - a.0), f64::from(b.1 - a.1));
        let edges = [
            (-dx, f64::from(a.0 - self.left)),
            (dx, f64::from(self.right - a.0)),
            (-dy, f64::from(a.1 - self.top)),
            (dy, f64::from(self.bottom - a.1)),
        ];
        let (mut from, mut to) = (0.0f64, 1.0f64);
        for (slope, distance) in edges {
            if slope == 0.0 && distance < 0.0 {
                return false;
            } else if slope < 0.0 {
                from = from.max(distance / slope);
            } else if slope > 0.0 {
                to = to.min(distance / slope);
            }
        }
        from <= to
    }
}

/// A label's place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlacedLabel {
    pub(crate) place: Rect,
    /// The line from the label to the point that it names, if the label is not beside that point.
    pub(crate) leader: Option<[Pixel; 2]>,
}

/// Minimum distance between a label and lines, marks and other labels, in pixels.
const CLEAR: i32 = 3;
/// Distances of a label from the point that it names, in pixels, the best one first.
const DISTANCES: [i32; 6] = [7, 11, 16, 24, 34, 48];
/// A label at this distance or farther has a leader.
const FAR: i32 = 16;
/// Half of a mark's width.
pub(crate) const MARK: i32 = 6;
/// Penalties that are added to the distance, in pixels. `AMBIGUOUS`: another line or mark is nearer
/// to the label than its own. `CROSSED`: for each line and mark that the label's leader crosses.
const AMBIGUOUS: i32 = 40;
const CROSSED: i32 = 25;

/// A panel with everything that labels must not cover.
pub(crate) struct LabelSpace {
    panel: Rect,
    /// Segments with the number of their line.
    segments: Vec<(usize, [Pixel; 2])>,
    /// Centers of marks with the number of their line.
    marks: Vec<(usize, Pixel)>,
    /// The labels that were placed.
    taken: Vec<Rect>,
}

impl LabelSpace {
    /// An empty panel.
    pub(crate) fn new(panel: Rect) -> LabelSpace {
        LabelSpace { panel, segments: Vec::new(), marks: Vec::new(), taken: Vec::new() }
    }

    /// Keeps labels away from a segment of a line.
    pub(crate) fn add_segment(&mut self, line: usize, segment: [Pixel; 2]) {
        self.segments.push((line, segment));
    }

    /// Keeps labels away from a mark of a line.
    pub(crate) fn add_mark(&mut self, line: usize, center: Pixel) {
        self.marks.push((line, center));
    }

    fn is_free(&self, rect: Rect) -> bool {
        let wide = rect.grown(CLEAR);
        self.panel.contains(rect)
            && !self.taken.iter().any(|taken| taken.overlaps(wide))
            && !self.marks.iter().any(|(_, center)| Rect::around(*center, MARK).overlaps(wide))
            && !self.segments.iter().any(|(_, segment)| wide.meets(*segment))
    }

    /// Places a label of this size beside one of these points of a line, and keeps it free from
    /// later labels. `None` if the panel is too full.
    pub(crate) fn place(
        &mut self,
        line: usize,
        points: &[Pixel],
        size: (i32, i32),
    ) -> Option<PlacedLabel> {
        let mut best: Option<(i32, PlacedLabel)> = None;
        for &point in points {
            for distance in DISTANCES {
                for place in around(point, size, distance).into_iter().filter(|p| self.is_free(*p))
                {
                    let leader = (distance >= FAR).then(|| [point, place.end_of_leader(point)]);
                    let Some(cost) = self.cost(line, place, distance, leader) else { continue };
                    if best.is_none_or(|(least, _)| cost < least) {
                        best = Some((cost, PlacedLabel { place, leader }));
                    }
                }
            }
        }
        let (_, label) = best?;
        self.taken.push(label.place);
        self.segments.extend(label.leader.map(|leader| (line, leader)));
        Some(label)
    }

    /// Places a label at the first of these places that is free.
    pub(crate) fn place_at(&mut self, places: impl IntoIterator<Item = Rect>) -> Option<Rect> {
        let place = places.into_iter().find(|place| self.is_free(*place))?;
        self.taken.push(place);
        Some(place)
    }

    /// The cost of a place; `None` if its leader crosses another label.
    fn cost(
        &self,
        line: usize,
        place: Rect,
        distance: i32,
        leader: Option<[Pixel; 2]>,
    ) -> Option<i32> {
        let mut cost = distance;
        let others = || self.segments.iter().filter(|(other, _)| *other != line);
        let marks = || self.marks.iter().filter(|(other, _)| *other != line);
        let near = place.grown(distance - 2);
        if others().any(|(_, segment)| near.meets(*segment))
            || marks().any(|(_, center)| near.overlaps(Rect::around(*center, 1)))
        {
            cost += AMBIGUOUS;
        }
        if let Some(leader) = leader {
            if self.taken.iter().any(|taken| taken.meets(leader)) {
                return None;
            }
            let lines = others().filter(|(_, other)| crosses(leader, *other)).count();
            let marks = marks().filter(|(_, at)| Rect::around(*at, MARK).meets(leader)).count();
            cost += CROSSED * (lines + marks) as i32;
        }
        Some(cost)
    }
}

/// The places around a point: right, left, above, below, and the four corners.
fn around((x, y): Pixel, (wide, high): (i32, i32), distance: i32) -> [Rect; 8] {
    let right = x + distance;
    let left = x - distance - wide;
    let above = y - distance - high;
    let below = y + distance;
    let (across, level) = (x - wide / 2, y - high / 2);
    [
        (right, level),
        (left, level),
        (across, above),
        (across, below),
        (right, above),
        (right, below),
        (left, above),
        (left, below),
    ]
    .map(|(left, top)| Rect { left, top, right: left + wide, bottom: top + high })
}

/// Returns true if two segments cross or touch.
fn crosses([a, b]: [Pixel; 2], [c, d]: [Pixel; 2]) -> bool {
    let side = |p: Pixel, q: Pixel, r: Pixel| {
        let (px, py) = (i64::from(q.0 - p.0), i64::from(q.1 - p.1));
        let (rx, ry) = (i64::from(r.0 - p.0), i64::from(r.1 - p.1));
        (px * ry - py * rx).signum()
    };
    side(a, b, c) * side(a, b, d) <= 0 && side(c, d, a) * side(c, d, b) <= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANEL: Rect = Rect { left: 0, top: 0, right: 600, bottom: 300 };

    #[test]
    fn segments_meet_a_rectangle_that_they_cross() {
        let rect = Rect { left: 10, top: 10, right: 20, bottom: 20 };
        for (segment, meets) in [
            ([(0, 0), (30, 30)], true),
            ([(0, 15), (30, 15)], true),
            ([(12, 12), (13, 13)], true),
            ([(15, 0), (15, 9)], false),
            ([(0, 30), (9, 0)], false),
            ([(0, 25), (25, 30)], false),
            ([(0, 0), (0, 0)], false),
        ] {
            assert_eq!(rect.meets(segment), meets, "{segment:?}");
        }
    }

    /// Random lines, among them many that are close to each other: no label covers a line or
    /// another label, or extends beyond the panel.
    #[test]
    fn no_label_lies_on_a_line() {
        let mut state = 1u64;
        let mut random = |below: i32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % below as u64) as i32
        };
        let mut placed = Vec::new();
        for _ in 0..200 {
            let mut space = LabelSpace::new(PANEL);
            let lines: Vec<Vec<Pixel>> = (0..6)
                .map(|_| {
                    let level = random(300);
                    (0..10).map(|n| (n * 60, (level + random(80)).min(299))).collect()
                })
                .collect();
            for (number, line) in lines.iter().enumerate() {
                line.windows(2).for_each(|w| space.add_segment(number, [w[0], w[1]]));
            }
            let mut labels = Vec::new();
            for (number, line) in lines.iter().enumerate() {
                labels.extend(space.place(number, line, (70, 13)));
            }
            for (n, label) in labels.iter().enumerate() {
                assert!(PANEL.contains(label.place), "{label:?}");
                assert!(!labels[..n].iter().any(|other| other.place.overlaps(label.place)));
                for line in &lines {
                    let on = line.windows(2).find(|w| label.place.meets([w[0], w[1]]));
                    assert_eq!(on, None, "{label:?}");
                }
            }
            placed.push(labels.len());
        }
        assert!(placed.iter().sum::<usize>() > 200 * 5, "{placed:?}");
    }

    /// Between marks of several lines, each label is nearest to a mark of its own.
    #[test]
    fn a_label_is_nearest_to_its_own_mark() {
        let mut space = LabelSpace::new(PANEL);
        let rows = [100, 130, 160].map(|y| [(100, y), (300, y), (500, y)]);
        for (number, row) in rows.iter().enumerate() {
            row.iter().for_each(|center| space.add_mark(number, *center));
        }
        let marks: Vec<(usize, Pixel)> = space.marks.clone();
        for (number, row) in rows.iter().enumerate() {
            let place = space.place(number, row, (70, 13)).unwrap().place;
            let (_, nearest) = marks
                .iter()
                .map(|&(line, (x, y))| {
                    let across = (place.left - x).max(x - place.right).max(0);
                    let down = (place.top - y).max(y - place.bottom).max(0);
                    (across.max(down), line)
                })
                .min()
                .unwrap();
            assert_eq!(nearest, number, "{place:?}");
        }
    }

    /// If two lines are close, the label of each is on the side of its own line.
    #[test]
    fn a_label_is_nearest_to_its_own_line() {
        let mut space = LabelSpace::new(PANEL);
        let [upper, lower] = [100, 110].map(|y| [(0, y), (300, y), (600, y)]);
        for (number, line) in [upper, lower].iter().enumerate() {
            line.windows(2).for_each(|w| space.add_segment(number, [w[0], w[1]]));
        }
        let above = space.place(0, &upper, (80, 13)).unwrap().place;
        let below = space.place(1, &lower, (80, 13)).unwrap().place;
        assert!(above.bottom < 100 && below.top > 110, "{above:?} {below:?}");
    }
}
