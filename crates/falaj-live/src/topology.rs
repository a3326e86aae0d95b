//! The hosts of a scenario: the links that join them, their addresses, and the routes between them.
//!
//! ```text
//!   a == dsl ==\                           star: each link leads up to the router in the middle
//!               router == fibre == b
//!
//!   a == first == b == second == c         chain: a link of two hosts lies between them
//! ```
//!
//! Each host has namespaces of its own, and so has the router. A node with more than one link
//! forwards packets by the kernel, so routes, ICMP and MTU limits work as they do elsewhere. A
//! packet passes the engine once for each link on its way.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use falaj_scenario::{Link, ROUTER, Scenario};

use crate::error::Error;
use crate::link_end::{End, Subnet};
use crate::sandbox::hosts::All;
use crate::sandbox::plan::{Attachment, Forwards, SidePlan, Variable};
use crate::sandbox::{Hosts, Join, SandboxSide, UserNamespace};

/// The smallest MTU with which a link carries IPv6.
const MTU6: u16 = 1280;

/// The hosts of a scenario, and the router if there is one, by number.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: Vec<TopologyNode>,
    links: Vec<TopologyLink>,
    /// True if IPv6 is used. All links must carry it: otherwise a name might resolve to an address
    /// without a route.
    six: bool,
}

#[derive(Clone, Debug)]
struct TopologyNode {
    name: String,
    /// The node's links, in the order of its interfaces.
    links: Vec<usize>,
}

/// A link between two nodes.
#[derive(Clone, Debug)]
struct TopologyLink {
    subnet: Subnet,
    mtu: u16,
    /// Near and far node.
    nodes: [usize; 2],
}

impl TopologyLink {
    /// The end of the link at which a node is.
    fn end_of(&self, node: usize) -> End {
        if self.nodes[0] == node { End::Near } else { End::Far }
    }
}

/// The reason why a scenario cannot be built from namespaces here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// There are more links than addresses for links.
    Links(usize),
    /// The MTU of the link of this name does not fit an interface.
    Mtu(String),
}

impl std::fmt::Display for TopologyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TopologyError::Links(n) => {
                write!(f, "there are addresses for {n} links only: use fewer, or end other runs")
            }
            TopologyError::Mtu(link) => {
                write!(f, "the mtu of link `{link}` does not fit an interface: at most 65521B")
            }
        }
    }
}
impl std::error::Error for TopologyError {}

impl Topology {
    /// The hosts of a scenario that defines hosts, with free subnets for their links.
    ///
    /// # Errors
    /// There are too many links, or a link has too large an MTU.
    pub fn new(scenario: &Scenario) -> Result<Topology, TopologyError> {
        let mut nodes: Vec<TopologyNode> = scenario
            .hosts
            .iter()
            .map(|host| TopologyNode { name: host.name.clone(), links: host.links.clone() })
            .collect();
        let router = nodes.len();
        let mut ends = vec![Vec::new(); scenario.links.len()];
        for (n, host) in scenario.hosts.iter().enumerate() {
            host.links.iter().for_each(|&link| ends[link].push(n));
        }
        let subnets: Vec<Subnet> = Subnet::free_ones().take(ends.len()).collect();
        if subnets.len() < ends.len() {
            return Err(TopologyError::Links(subnets.len()));
        }
        let mut links = Vec::new();
        let mut of_router = Vec::new();
        for (n, ((link, ends), subnet)) in scenario.links.iter().zip(ends).zip(subnets).enumerate()
        {
            let near = ends.first().copied().unwrap_or(router);
            let far = ends.get(1).copied().unwrap_or_else(|| {
                of_router.push(n);
                router
            });
            links.push(TopologyLink { subnet, mtu: mtu(link)?, nodes: [near, far] });
        }
        if !of_router.is_empty() {
            nodes.push(TopologyNode { name: ROUTER.to_owned(), links: of_router });
        }
        let six = links.iter().all(|link| link.mtu >= MTU6);
        Ok(Topology { nodes, links, six })
    }

    /// Names of the nodes, by number.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }

    /// The address by which others know a node: its address at the first of its links.
    pub fn address(&self, node: usize) -> Ipv4Addr {
        let link = &self.links[self.nodes[node].links[0]];
        link.subnet.address(link.end_of(node))
    }

    /// The node's IPv6 address, if all links carry IPv6.
    pub fn address6(&self, node: usize) -> Option<Ipv6Addr> {
        let link = &self.links[self.nodes[node].links[0]];
        self.six.then(|| link.subnet.address6(link.end_of(node)))
    }

    /// The ends of a link, the near end first: the node, and the index of its interface.
    pub(crate) fn ends(&self, link: usize) -> [(usize, usize); 2] {
        self.links[link].nodes.map(|node| {
            let interface = self.nodes[node].links.iter().position(|&l| l == link);
            (node, interface.expect("a link's end is a node of that link"))
        })
    }

    /// Creates all nodes, with their commands, which wait for [`Hosts::go`].
    ///
    /// # Errors
    /// As [`Sandbox::start`](crate::sandbox::Sandbox::start).
    pub fn start(
        &self,
        sides: Vec<SandboxSide>,
        user_namespace: UserNamespace,
        join: Join,
    ) -> Result<Hosts, Error> {
        let names = self.hosts_file();
        let plans = sides.into_iter().zip(0..self.nodes.len()).map(|(side, node)| SidePlan {
            side,
            attachments: self.attachments(node),
            forwards: if self.nodes[node].links.len() > 1 {
                Forwards::All
            } else {
                Forwards::Nothing
            },
            variables: self.variables(node),
            names: Some(names.clone()),
            namespace: None,
            host_ports: Vec::new(),
            tells_refusals: false,
        });
        let all = All {
            tso: true,
            join,
            user_namespace,
            subnet: Subnet::default(),
            resolver: None,
            ends: false,
        };
        Hosts::start(plans.collect(), &all)
    }

    /// The nodes' names and addresses, followed by the caller's `/etc/hosts`.
    fn hosts_file(&self) -> String {
        let mut text = String::new();
        for (n, name) in self.names().enumerate() {
            let addresses = [Some(IpAddr::V4(self.address(n))), self.address6(n).map(IpAddr::V6)];
            addresses
                .into_iter()
                .flatten()
                .for_each(|address| text += &format!("{address}\t{name}\n"));
        }
        text + &fs::read_to_string("/etc/hosts").unwrap_or_default()
    }

    fn variables(&self, node: usize) -> Vec<(String, Variable)> {
        let v6 = |n| self.address6(n).map_or(Variable::Unset, Variable::V6);
        let mut all = vec![
            ("FALAJ_HOST".to_owned(), Variable::Text(self.nodes[node].name.clone())),
            ("FALAJ_ADDR".to_owned(), Variable::V4(self.address(node))),
            ("FALAJ_ADDR6".to_owned(), v6(node)),
        ];
        // A node has many peers, so the variables for a single peer are unset.
        let none = ["FALAJ_SIDE", "FALAJ_PEER", "FALAJ_PEER6", "MAHIMAHI_BASE"];
        all.extend(none.map(|name| (name.to_owned(), Variable::Unset)));
        for (n, name) in self.names().enumerate() {
            let name = name.to_uppercase().replace('-', "_");
            all.push((format!("FALAJ_ADDR_{name}"), Variable::V4(self.address(n))));
            all.push((format!("FALAJ_ADDR6_{name}"), v6(n)));
        }
        all
    }

    /// The interfaces of a node, with the routes to all subnets that are not directly attached.
    fn attachments(&self, node: usize) -> Vec<Attachment> {
        let own = &self.nodes[node].links;
        let mut all: Vec<Attachment> = own
            .iter()
            .enumerate()
            .map(|(n, &link)| {
                let joined = &self.links[link];
                let mut at = Attachment::new(
                    n,
                    link as u8,
                    joined.end_of(node),
                    joined.subnet,
                    joined.mtu,
                    self.six,
                );
                if let ([_], other) = (&own[..], joined.end_of(node).other()) {
                    at.routes.push((None, joined.subnet.address(other).into()));
                    at.routes
                        .extend(self.six.then(|| (None, joined.subnet.address6(other).into())));
                }
                at
            })
            .collect();
        if all.len() > 1 {
            let by = self.first_interfaces(node);
            for (link, joined) in
                self.links.iter().enumerate().filter(|(link, _)| !own.contains(link))
            {
                // The link can be reached through either of its ends; the nearer one is used.
                let Some((_, interface)) = joined.nodes.iter().filter_map(|&end| by[end]).min()
                else {
                    continue;
                };
                let first = &self.links[own[interface]];
                let other = first.end_of(node).other();
                let subnet = self.links[link].subnet;
                let routes = &mut all[interface].routes;
                routes.push((
                    Some((subnet.network().into(), Subnet::PREFIX)),
                    first.subnet.address(other).into(),
                ));
                if self.six {
                    routes.push((
                        Some((subnet.network6().into(), Subnet::PREFIX6)),
                        first.subnet.address6(other).into(),
                    ));
                }
            }
        }
        all
    }

    /// For each node, its distance in links, and the interface by which the shortest path to it
    /// begins (the first of several equal paths). `None` if there is no path.
    fn first_interfaces(&self, from: usize) -> Vec<Option<(usize, usize)>> {
        let mut by = vec![None; self.nodes.len()];
        let mut seen = vec![false; self.nodes.len()];
        seen[from] = true;
        let mut reached = std::collections::VecDeque::from([(from, 0, None)]);
        while let Some((node, far, first)) = reached.pop_front() {
            by[node] = first.map(|first| (far, first));
            for (n, &link) in self.nodes[node].links.iter().enumerate() {
                let next = self.links[link].nodes[self.links[link].end_of(node).other().index()];
                if !std::mem::replace(&mut seen[next], true) {
                    reached.push_back((next, far + 1, Some(first.unwrap_or(n))));
                }
            }
        }
        by
    }
}

fn mtu(link: &Link) -> Result<u16, TopologyError> {
    u16::try_from(link.up.mtu.max(link.down.mtu)).map_err(|_| TopologyError::Mtu(link.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(hosts: &str) -> Topology {
        let links = ["x", "y", "z", "w"].map(|name| format!("[link.{name}]\nrate = \"1mbit\"\n"));
        let used = |link: &&String| hosts.contains(&format!("\"{}\"", &link[6..7]));
        let links: String = links.iter().filter(used).map(String::as_str).collect();
        let text = links + hosts;
        let (scenario, _) =
            falaj_scenario::parse(&text, "a.toml").unwrap_or_else(|e| panic!("{e}"));
        Topology::new(&scenario).unwrap()
    }

    /// The IPv4 routes of a host: interface, subnet (or `all`), gateway.
    fn routes(of: &Topology, host: &str) -> Vec<String> {
        let node = of.names().position(|name| name == host).unwrap();
        let first = of.links[0].subnet.number();
        let short = |address: IpAddr| match address {
            IpAddr::V4(address) => {
                Some(format!("{}.{}", address.octets()[2] - first, address.octets()[3]))
            }
            IpAddr::V6(_) => None,
        };
        let of_one = |at: Attachment| {
            let route = move |(to, gateway): (Option<(IpAddr, u8)>, IpAddr)| {
                let to = to.map_or(Some("all".into()), |(to, _)| short(to))?;
                Some(format!("{} {to} by {}", at.name, short(gateway)?))
            };
            at.routes.into_iter().filter_map(route)
        };
        of.attachments(node).into_iter().flat_map(of_one).collect()
    }

    #[test]
    fn links_of_one_host_meet_at_the_router() {
        let star = topology("[host.a]\nlink = \"x\"\n[host.b]\nlink = \"y\"\n");
        assert_eq!(star.names().collect::<Vec<_>>(), ["a", "b", "router"]);
        assert_eq!(routes(&star, "a"), ["falaj0 all by 0.2"]);
        assert_eq!(routes(&star, "b"), ["falaj0 all by 1.2"]);
        assert_eq!(routes(&star, "router"), [""; 0], "it is at each link");
        assert_eq!(star.ends(1), [(1, 0), (2, 1)]);
    }

    #[test]
    fn a_chain_knows_what_is_behind_the_next_one() {
        let chain = topology(
            "[host.a]\nlink = \"x\"\n[host.b]\nlink = [\"x\", \"y\"]\n[host.c]\nlink = [\"y\", \"z\"]\n[host.d]\nlink = \"z\"\n",
        );
        assert_eq!(chain.names().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(routes(&chain, "b"), ["falaj1 2.0 by 1.2"]);
        assert_eq!(routes(&chain, "c"), ["falaj0 0.0 by 1.1"]);
        assert_eq!(routes(&chain, "d"), ["falaj0 all by 2.1"]);
    }

    #[test]
    fn of_a_ring_the_shorter_way_is_taken() {
        let ring = topology(
            "[host.a]\nlink = [\"x\", \"w\"]\n[host.b]\nlink = [\"x\", \"y\"]\n[host.c]\nlink = [\"y\", \"z\"]\n\
             [host.d]\nlink = [\"z\", \"w\"]\n",
        );
        // Links x, y, z, w are subnets 0 to 3; y ends at b, the neighbour by x, and z at d, the
        // neighbour by w.
        assert_eq!(routes(&ring, "a"), ["falaj0 1.0 by 0.2", "falaj1 2.0 by 3.2"]);
        assert_eq!(routes(&ring, "c"), ["falaj0 0.0 by 1.1", "falaj1 3.0 by 2.2"]);
    }

    #[test]
    fn where_no_way_leads_there_is_no_route() {
        let two = topology(
            "[host.a]\nlink = [\"x\", \"y\"]\n[host.b]\nlink = [\"x\", \"y\"]\n[host.c]\nlink = \"z\"\n[host.d]\nlink = \"z\"\n",
        );
        assert_eq!(routes(&two, "a"), [""; 0]);
    }
}
