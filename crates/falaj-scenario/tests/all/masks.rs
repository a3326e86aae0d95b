//! Masks in a file: they are read for both directions, and refused if they are invalid.

use falaj_scenario::parse;

fn link(body: &str) -> String {
    format!("[link.a]\nrate = \"100mbit\"\nscheduler = {{ kind = \"drr\" }}\n{body}")
}

#[test]
fn a_mask_is_read_for_each_direction() {
    let text = link(
        "mask = \"near\"\nexpire = \"1s\"\n[link.a.flow.all]\nmatch = \"any\"\nmask = \"src/24 dport\"\nmax-flows = 5",
    );
    let (scenario, warnings) = parse(&text, "a.toml").unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let link = &scenario.links[0];
    for (direction, near) in [(&link.up, "src"), (&link.down, "dst")] {
        let each = direction.pipe.masks.link.expect("the link has one");
        assert_eq!(
            (each.mask.to_string().as_str(), each.most, each.expire.0),
            (near, 65_536, 1_000_000_000)
        );
        let of_flow = direction.pipe.masks.of(0).expect("the flow has one");
        assert_eq!((of_flow.mask.to_string().as_str(), of_flow.most), ("src/24 dport", 5));
        assert_eq!(direction.pipe.clone().masks, direction.pipe.masks);
    }
}

#[test]
fn what_cannot_be_many_is_refused_where_it_stands() {
    let flow = "[link.a.flow.all]\nmatch = \"any\"\n";
    let cases = [
        (link(&format!("{flow}mask = \"sorce\"")), "is not a part of a mask"),
        (link(&format!("{flow}mask = [\"src\"]")), "as in `\"src/24 dport\"`"),
        (link(&format!("{flow}max-flows = 7")), "has no `mask`, which `max-flows` is for"),
        (link("expire = \"1s\""), "has no `mask`, which `expire` is for"),
        (
            link(&format!(
                "mask = \"src\"\nmax-flows = 65536\n{flow}mask = \"dport\"\nmax-flows = 65536"
            )),
            "are more than 16777216 queues",
        ),
        (format!("[link.a]\nrate = \"1mbit\"\n{flow}mask = \"src\""), "all flows share one queue"),
        (
            link(&format!("{flow}mask = \"src\"\n[link.a.flow.all.flow.part]\nmatch = \"any\"")),
            "put `mask` on the link",
        ),
        (
            link(&format!(
                "[link.a.flow.b]\nmatch = \"udp\"\n[link.a.flow.b.flow.part]\nmatch = \"any\"\n{flow}mask = \"src\""
            )),
            "another flow of this link is divided",
        ),
        (
            link(&format!("{flow}mask = \"src\"\nrate = \"10mbit\""))
                .replace("drr", "virtual-clock"),
            "`mask` makes 65536 queues for one id each",
        ),
    ];
    for (text, words) in cases {
        let error = parse(&text, "a.toml").map(drop).expect_err(words).to_string();
        assert!(error.contains(words), "{text}\n{error}");
        assert!(error.lines().count() < 40, "said once: {error}");
    }
}

/// The default of `max-flows` is small enough that all queues are possible.
#[test]
fn masks_of_link_and_flow_go_together() {
    let most = |of_link: &str, of_flow: &str| {
        let flow = |name: &str, matches: &str| {
            format!("[link.a.flow.{name}]\nmatch = \"{matches}\"\nmask = \"dport\"\n{of_flow}")
        };
        let text =
            link(&format!("mask = \"src\"\n{of_link}{}{}", flow("u", "udp"), flow("rest", "any")));
        let (scenario, _) = parse(&text, "a.toml").unwrap_or_else(|e| panic!("{text}\n{e}"));
        let masks = &scenario.links[0].up.pipe.masks;
        (masks.link.map(|each| each.most), [0, 1].map(|f| masks.of(f).map_or(0, |each| each.most)))
    };
    assert_eq!(most("", ""), (Some(8192), [512, 512]));
    assert_eq!(most("max-flows = 65536\n", ""), (Some(65_536), [128, 64]));
    assert_eq!(most("max-flows = 10\n", ""), (Some(10), [65_536, 65_536]));
    assert_eq!(most("", "max-flows = 100\n"), (Some(65_536), [100, 100]));
    let one = link("mask = \"src\"\n[link.a.flow.all]\nmatch = \"any\"\nmask = \"dport\"");
    let masks = parse(&one, "a.toml").unwrap().0.links[0].up.pipe.masks.clone();
    assert_eq!((masks.link.unwrap().most, masks.of(0).unwrap().most), (16_384, 512));
}
