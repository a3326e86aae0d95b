//! Divides a rule with `not` and `or` into alternatives, of which one must hold. Alternatives
//! contain no `or`, and `not` only before single terms.

use super::{MOST, Node};
use crate::units::Unreadable;
use falaj_engine::classifier::Match;
use falaj_engine::term::Literal;

/// Returns alternatives without `or`. They match the packets for which all of these nodes hold.
pub(super) fn apart(all: &[Node]) -> Result<Vec<Match>, Unreadable> {
    all.iter().try_fold(vec![Match::ANY], |left, node| both(&left, &one_of(node, false)?))
}

/// Returns alternatives that match the packets for which `node` holds. If `not` is true, they match
/// the packets for which it does not hold.
fn one_of(node: &Node, not: bool) -> Result<Vec<Match>, Unreadable> {
    match (node, not) {
        (Node::Any, false) => Ok(vec![Match::ANY]),
        (Node::Any, true) => Ok(Vec::new()),
        (Node::One(terms), false) => {
            Ok(terms.iter().map(|term| Match::of(Literal { term: term.clone(), not })).collect())
        }
        (Node::One(terms), true) => {
            let each =
                terms.iter().map(|term| vec![Match::of(Literal { term: term.clone(), not })]);
            each.into_iter().try_fold(vec![Match::ANY], |left, right| both(&left, &right))
        }
        (Node::Not(node), not) => one_of(node, !not),
        (Node::Or(sides), false) => {
            let sides = sides.iter().map(|side| apart(side)).collect::<Result<Vec<_>, _>>()?;
            few(sides.concat())
        }
        // No side may hold, so in each side at least one term must not hold.
        (Node::Or(sides), true) => sides.iter().try_fold(vec![Match::ANY], |left, side| {
            let each = side.iter().map(|node| one_of(node, true)).collect::<Result<Vec<_>, _>>()?;
            both(&left, &each.concat())
        }),
    }
}

/// Combines each of the left alternatives with each of the right ones.
fn both(left: &[Match], right: &[Match]) -> Result<Vec<Match>, Unreadable> {
    if left.len() * right.len() > MOST {
        return few(vec![Match::ANY; MOST + 1]);
    }
    Ok(left.iter().flat_map(|l| right.iter().filter_map(move |r| l.and(r))).collect())
}

fn few(matches: Vec<Match>) -> Result<Vec<Match>, Unreadable> {
    if matches.len() > MOST {
        return Err(Unreadable::new(
            format!("a rule that expands into more than {MOST} alternatives"),
            "write several rules, or look addresses and ports up in a table: `src table NAME`",
        ));
    }
    Ok(matches)
}
