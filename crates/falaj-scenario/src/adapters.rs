//! Virtual adapters: ports at the near end of a link, each with its own flow, and one port at the
//! far end that all adapters share.

use crate::diagnostics::Problem;
use crate::model::{Adapter, Flow, Link};
use crate::read::Fields;
use crate::suggest::quoted;
use falaj_engine::classifier::Match;
use falaj_engine::term::{Literal, Term};
use std::collections::{BTreeMap, BTreeSet};
use toml::de::{DeTable, DeValue};

/// Returns true if this flow, or a part of it, belongs to an adapter.
pub(crate) fn below(flow: &Fields<'_>) -> bool {
    fn any(parts: &DeTable<'_>) -> bool {
        let is = |part: &DeValue<'_>| {
            let own = part.get("adapter").is_some();
            own || part.get("flow").and_then(|parts| parts.get_ref().as_table()).is_some_and(any)
        };
        parts.values().any(|part| is(part.get_ref()))
    }
    flow.means("adapter") || flow.table("flow").is_some_and(|(parts, _)| any(parts))
}

/// Restricts an adapter's flow to the adapter's packets.
pub(crate) fn restrict(flow: &mut Flow) {
    let Some(adapter) = &flow.adapter else { return };
    let its = Match::of(Literal { term: Term::Adapter(adapter.id()), not: false });
    flow.matches = flow.matches.iter().filter_map(|rule| rule.and(&its)).collect();
}

/// Checks that adapters and ports fit together: one port for each adapter and one adapter for each
/// port, and a port at the far end.
pub(crate) fn check(links: &[Link], file: &Fields<'_>, problems: &mut Vec<Problem>) {
    let at = || file.field("link").map_or(0..0, |field| field.name_at.clone());
    let mut wrong = |what: String, help: &str| problems.push(Problem::error(at(), what).help(help));
    let mut all: Vec<(&str, &Adapter)> = Vec::new();
    let mut places = Places::default();
    for link in links {
        let flows = [&link.up, &link.down].into_iter().flat_map(|direction| &direction.flows);
        let own: Vec<&Adapter> = flows.filter_map(|flow| flow.adapter.as_ref()).collect();
        if !own.is_empty() && link.uplink.is_none() {
            wrong(
                format!("link {} has adapters, and nothing at its far end", quoted(&link.name)),
                "add `uplink = \"eth1\"` to the link: an interface, or `namespace` to try it out",
            );
        }
        if let (true, Some(uplink)) = (own.is_empty(), &link.uplink) {
            wrong(
                format!(
                    "link {} has the uplink {}, and no flow with an `adapter`",
                    quoted(&link.name),
                    quoted(uplink)
                ),
                "give its flows an `adapter`, or leave `uplink` out",
            );
        }
        for adapter in own {
            for (other, known) in places.like(adapter).into_iter().map(|place| &all[place]) {
                let same =
                    (known.name == adapter.name, known.port == adapter.port, *other == link.name);
                match same {
                    (true, true, true) if known.batches != adapter.batches => wrong(
                        format!(
                            "adapter {} has different `batches` in its two directions",
                            quoted(&adapter.name)
                        ),
                        "both directions have the same",
                    ),
                    (true, true, true) => {}
                    (true, true, false) => wrong(
                        format!(
                            "links {} and {} both have an adapter {}",
                            quoted(other),
                            quoted(&link.name),
                            quoted(&adapter.name)
                        ),
                        "an adapter is on one link; give the other one another name",
                    ),
                    (true, false, _) => wrong(
                        format!(
                            "adapter {} is {} and {}",
                            quoted(&adapter.name),
                            quoted(&known.port),
                            quoted(&adapter.port)
                        ),
                        "both directions name the same port; give the other adapter another name",
                    ),
                    (false, true, _) if adapter.port != NAMESPACE => wrong(
                        format!(
                            "adapters {} and {} are both {}",
                            quoted(&known.name),
                            quoted(&adapter.name),
                            quoted(&adapter.port)
                        ),
                        "each has a port of its own",
                    ),
                    (false, _, _) if known.id() == adapter.id() => wrong(
                        format!(
                            "adapters {} and {} cannot be told apart",
                            quoted(&known.name),
                            quoted(&adapter.name)
                        ),
                        "give one of them another name",
                    ),
                    _ => {}
                }
            }
            if places.add(adapter, all.len()) {
                all.push((&link.name, adapter));
            }
        }
    }
}

/// Indices of the adapters read so far, by each property that must be unique. The maps keep the
/// check fast for thousands of adapters.
#[derive(Default)]
struct Places<'a> {
    names: BTreeMap<&'a str, usize>,
    ports: BTreeMap<&'a str, Vec<usize>>,
    ids: BTreeMap<u64, Vec<usize>>,
}

impl<'a> Places<'a> {
    /// Adapters that share a property with this one, in order.
    fn like(&self, adapter: &Adapter) -> BTreeSet<usize> {
        let ports = self.ports.get(&adapter.port[..]).filter(|_| adapter.port != NAMESPACE);
        let several = [ports, self.ids.get(&adapter.id().number())].into_iter().flatten().flatten();
        several.chain(self.names.get(&adapter.name[..])).copied().collect()
    }

    /// Adds an adapter. Returns true if there was no adapter with its name.
    fn add(&mut self, adapter: &'a Adapter, place: usize) -> bool {
        if self.names.contains_key(&adapter.name[..]) {
            return false;
        }
        self.names.insert(&adapter.name, place);
        self.ports.entry(&adapter.port).or_default().push(place);
        self.ids.entry(adapter.id().number()).or_default().push(place);
        true
    }
}

/// The value of a port for which falaj makes a namespace. Several adapters may have this value.
const NAMESPACE: &str = "namespace";
