//! Forwarding loops: interfaces that the kernel itself joins. A frame that a link sends at one of
//! them would come back to the link at the other.
//!
//! The kernel lists the interfaces of the caller's network namespace and of the named ones. The
//! path of frames is followed from one end to the other: across veth pairs, through kernel bridges
//! and bonds, and down to the interface below a VLAN. A path through any other namespace is not
//! detected.

use crate::backend::InterfaceName;
use crate::error::SetupStep;
use crate::netns::made_in;
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, Prop,
};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    socket,
};
use nix::sys::stat::fstat;
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

/// Explains why no link can lie between two interfaces: they are the same, or the kernel joins them
/// already. Returns `None` if there is no reason, or if the kernel does not list the interfaces,
/// for example because one of them does not exist.
///
/// The process must be single-threaded if one of the interfaces is in another network namespace.
pub fn between(a: &InterfaceName, b: &InterfaceName) -> Option<String> {
    let network = InterfaceGraph::read(&[None, a.namespace.as_deref(), b.namespace.as_deref()]);
    let [from, to] = [network.find(a)?, network.find(b)?];
    if from == to {
        return Some(format!(
            "both ends are the interface {a}: a link needs two different interfaces"
        ));
    }
    for (end, name) in [(from, a), (to, b)] {
        if network[end].kind == InterfaceKind::Loopback {
            return Some(format!(
                "{name} is a loopback interface and returns each frame: it cannot be an end of a link"
            ));
        }
    }
    let way = network.way(from, to).or_else(|| network.way(to, from))?;
    let how = network.describe(&way);
    Some(format!(
        "{a} and {b} are joined already, {how}: frames would come back without end, or arrive \
         twice; take two interfaces that nothing else joins"
    ))
}

/// Names two interfaces of one network namespace that are the two ends of one veth pair. A link at
/// all interfaces of the namespace would delay each packet between these two twice.
///
/// The process must be single-threaded if the namespace is another one.
pub fn within(namespace: Option<&str>) -> Option<String> {
    let network = InterfaceGraph::read(&[namespace]);
    let interfaces = &network.spaces.first()?.interfaces;
    let of_pair = |one: &&ListedInterface| one.kind == InterfaceKind::Pair;
    let (one, other) = interfaces.iter().filter(of_pair).find_map(|one| {
        let node = one.below.filter(|node| node.space == 0)?;
        Some((one, interfaces.iter().find(|other| other.index == node.index)?))
    })?;
    Some(format!(
        "{} and {} are the two ends of one veth pair: packets between them would pass the link \
         twice; name one interface",
        one.names[0], other.names[0]
    ))
}

/// An interface by its namespace and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InterfaceNode {
    space: usize,
    index: u32,
}

/// The kind of an interface, which determines how it treats frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterfaceKind {
    /// One interface of a veth or netkit pair.
    Pair,
    /// On top of another interface, with frames of one VLAN.
    Vlan(u16),
    /// On top of another interface that several such interfaces share: macvlan, ipvlan, and their
    /// taps.
    Shared,
    /// A kernel bridge.
    Bridge,
    /// A bond or team.
    Bond,
    Loopback,
    Other,
}

#[derive(Clone, Debug)]
struct ListedInterface {
    index: u32,
    /// The interface's name, then its alternative names.
    names: Vec<String>,
    kind: InterfaceKind,
    /// The other end of the interface's pair, or the interface below it, if known.
    below: Option<InterfaceNode>,
    /// The bridge or bond of which it is a port.
    controller: Option<u32>,
}

/// The interfaces of a network namespace.
#[derive(Debug)]
struct NamespaceListing {
    /// Names of the namespace; `None` is the caller's.
    names: Vec<Option<String>>,
    interfaces: Vec<ListedInterface>,
}

/// The interfaces of some network namespaces.
#[derive(Debug, Default)]
struct InterfaceGraph {
    spaces: Vec<NamespaceListing>,
}

impl std::ops::Index<InterfaceNode> for InterfaceGraph {
    type Output = ListedInterface;

    fn index(&self, node: InterfaceNode) -> &ListedInterface {
        self.interface(node).expect("a way has only interfaces that are there")
    }
}

/// The direction of a frame at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Heading {
    /// Out of the machine, or to the other end of a pair.
    Sent,
    /// Up to the readers of the interface.
    Received,
}

/// A frame at an interface, with the VLAN tags that were added on its way.
type FramePassage = (InterfaceNode, Heading, Vec<u16>);

impl InterfaceGraph {
    /// The largest number of tags of a frame that are followed; no network uses more.
    const TAGS: usize = 4;

    /// Lists the interfaces of these namespaces, each of which is included once; namespaces that
    /// the kernel does not list are omitted.
    fn read(namespaces: &[Option<&str>]) -> InterfaceGraph {
        let mut network = InterfaceGraph::default();
        let mut descriptors: Vec<Descriptors> = Vec::new();
        for &namespace in namespaces {
            let Some(opened) = Descriptors::open(namespace) else { continue };
            let name = namespace.map(str::to_owned);
            let known = descriptors.iter().position(|one| one.identity == opened.identity);
            if let Some(space) = known {
                network.spaces[space].names.push(name);
                continue;
            }
            descriptors.push(opened);
            network.spaces.push(NamespaceListing { names: vec![name], interfaces: vec![] });
        }
        for (space, asked) in descriptors.iter().enumerate() {
            // The numbers by which this namespace knows the other namespaces.
            let ids: Vec<Option<i32>> = descriptors.iter().map(|other| asked.id(other)).collect();
            let links = asked.links().into_iter();
            let read = links.map(|link| interface(link, space, &ids));
            network.spaces[space].interfaces = read.collect();
        }
        network
    }

    fn find(&self, name: &InterfaceName) -> Option<InterfaceNode> {
        let space = self.spaces.iter().position(|space| space.names.contains(&name.namespace))?;
        let mut interfaces = self.spaces[space].interfaces.iter();
        let found = interfaces.find(|one| one.names.contains(&name.interface))?;
        Some(InterfaceNode { space, index: found.index })
    }

    /// The path of interfaces by which a frame that is sent or received at `from` reaches `to`,
    /// both included.
    fn way(&self, from: InterfaceNode, to: InterfaceNode) -> Option<Vec<InterfaceNode>> {
        let mut reached: Vec<(FramePassage, Option<usize>)> = Vec::new();
        let mut seen: HashSet<FramePassage> = HashSet::new();
        let starts = [Heading::Sent, Heading::Received].map(|heading| (from, heading, vec![]));
        let mut next: VecDeque<(FramePassage, Option<usize>)> =
            starts.into_iter().map(|start| (start, None)).collect();
        while let Some((passage, before)) = next.pop_front() {
            if !seen.insert(passage.clone()) {
                continue;
            }
            reached.push((passage, before));
            let here = reached.len() - 1;
            if reached[here].0.0 == to {
                let back = std::iter::successors(Some(here), |&at| reached[at].1);
                let mut way: Vec<InterfaceNode> = back.map(|at| reached[at].0.0).collect();
                way.dedup();
                way.reverse();
                return Some(way);
            }
            let onward = self.onward(&reached[here].0).into_iter();
            let is_known = |(node, ..): &FramePassage| self.interface(*node).is_some();
            next.extend(onward.filter(is_known).map(|passage| (passage, Some(here))));
        }
        None
    }

    fn interface(&self, node: InterfaceNode) -> Option<&ListedInterface> {
        self.spaces[node.space].interfaces.iter().find(|one| one.index == node.index)
    }

    fn all(&self) -> impl Iterator<Item = (InterfaceNode, &ListedInterface)> {
        let spaces = self.spaces.iter().enumerate();
        spaces.flat_map(|(space, is)| {
            is.interfaces.iter().map(move |one| (InterfaceNode { space, index: one.index }, one))
        })
    }

    /// The next steps of a frame in the kernel.
    fn onward(&self, (node, heading, tags): &FramePassage) -> Vec<FramePassage> {
        let (node, one) = (*node, &self[*node]);
        let to = |node, heading| (node, heading, tags.clone());
        let on_top =
            |below: InterfaceNode| self.all().filter(move |(_, other)| other.below == Some(below));
        match (heading, one.kind) {
            (Heading::Sent, InterfaceKind::Pair) => {
                one.below.map(|other| to(other, Heading::Received)).into_iter().collect()
            }
            (Heading::Sent, InterfaceKind::Vlan(id)) if tags.len() < InterfaceGraph::TAGS => {
                let tagged = [&tags[..], &[id]].concat();
                one.below.map(|below| (below, Heading::Sent, tagged)).into_iter().collect()
            }
            (Heading::Sent, InterfaceKind::Shared) => {
                let Some(below) = one.below else { return Vec::new() };
                let beside = on_top(below).filter(|(_, other)| other.kind == InterfaceKind::Shared);
                let beside = beside.filter(|&(other, _)| other != node);
                let mut onward = vec![to(below, Heading::Sent)];
                onward.extend(beside.map(|(other, _)| to(other, Heading::Received)));
                onward
            }
            (Heading::Sent, InterfaceKind::Bridge | InterfaceKind::Bond) => {
                let is_port = |&(port, is): &(InterfaceNode, &ListedInterface)| {
                    port.space == node.space && is.controller == Some(node.index)
                };
                self.all().filter(is_port).map(|(port, _)| to(port, Heading::Sent)).collect()
            }
            (Heading::Sent, _) => Vec::new(),
            (Heading::Received, _) => {
                // The tags with which a frame reached the link's end are unknown, so any are
                // possible.
                let mut onward: Vec<FramePassage> = on_top(node)
                    .filter_map(|(upper, is)| match is.kind {
                        InterfaceKind::Vlan(id) if tags.last().is_none_or(|&tag| tag == id) => {
                            let left = tags.len().saturating_sub(1);
                            Some((upper, Heading::Received, tags[..left].to_vec()))
                        }
                        InterfaceKind::Shared => Some(to(upper, Heading::Received)),
                        _ => None,
                    })
                    .collect();
                let controller = one.controller.map(|index| InterfaceNode { index, ..node });
                if let Some(controller) = controller.filter(|&it| self.interface(it).is_some()) {
                    match self[controller].kind {
                        // The frame goes to the bridge's other ports, and to this machine. It does
                        // not go back to its own port; that is ignored here, because from there it
                        // reaches nothing new.
                        InterfaceKind::Bridge => onward.extend(
                            [Heading::Received, Heading::Sent].map(|it| to(controller, it)),
                        ),
                        InterfaceKind::Bond => onward.push(to(controller, Heading::Received)),
                        _ => {}
                    }
                }
                onward
            }
        }
    }

    /// Describes how the first and the last interface of a path are joined.
    fn describe(&self, way: &[InterfaceNode]) -> String {
        if let &[a, b] = way {
            let [one, other] = [&self[a], &self[b]];
            return match (one.kind, other.kind) {
                (InterfaceKind::Pair, _) if one.below == Some(b) => "the two ends of one veth pair",
                (_, InterfaceKind::Bridge | InterfaceKind::Bond)
                    if one.controller == Some(b.index) =>
                {
                    "one a port of the other"
                }
                (InterfaceKind::Bridge | InterfaceKind::Bond, _)
                    if other.controller == Some(a.index) =>
                {
                    "one a port of the other"
                }
                (InterfaceKind::Shared, InterfaceKind::Shared) => "both on top of one interface",
                _ => "one on top of the other",
            }
            .to_owned();
        }
        let between = way.get(1..way.len() - 1).unwrap_or_default();
        if let &[bridge] = between
            && self[bridge].kind == InterfaceKind::Bridge
        {
            return format!("both ports of the kernel's bridge {}", self.name(bridge));
        }
        let names: Vec<String> = between.iter().map(|&node| self.name(node)).collect();
        format!("by {}", names.join(", "))
    }

    fn name(&self, node: InterfaceNode) -> String {
        let interface = self[node].names[0].clone();
        InterfaceName { interface, namespace: self.spaces[node.space].names[0].clone() }.to_string()
    }
}

/// Parses an interface as the kernel describes it. `ids` are the numbers by which the interface's
/// namespace knows the other namespaces.
fn interface(link: LinkMessage, space: usize, ids: &[Option<i32>]) -> ListedInterface {
    let mut one = ListedInterface {
        index: link.header.index,
        names: Vec::new(),
        kind: InterfaceKind::Other,
        below: None,
        controller: None,
    };
    let (mut below, mut elsewhere, mut more_names) = (None, None, Vec::new());
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => one.names.push(name),
            LinkAttribute::PropList(all) => {
                more_names.extend(all.into_iter().filter_map(|one| match one {
                    Prop::AltIfName(name) => Some(name),
                    _ => None,
                }));
            }
            LinkAttribute::Link(index) => below = Some(index),
            LinkAttribute::LinkNetNsId(id) => elsewhere = Some(id),
            LinkAttribute::Controller(index) => one.controller = Some(index),
            LinkAttribute::LinkInfo(info) => one.kind = kind(&info),
            _ => {}
        }
    }
    one.names.extend(more_names);
    if link.header.flags.contains(LinkFlags::Loopback) {
        one.kind = InterfaceKind::Loopback;
    }
    if matches!(one.kind, InterfaceKind::Pair | InterfaceKind::Vlan(_) | InterfaceKind::Shared) {
        let space = match elsewhere {
            Some(id) => ids.iter().position(|known| *known == Some(id)),
            None => Some(space),
        };
        one.below = below.zip(space).map(|(index, space)| InterfaceNode { space, index });
    }
    one
}

fn kind(info: &[LinkInfo]) -> InterfaceKind {
    let kind = info.iter().find_map(|one| match one {
        LinkInfo::Kind(kind) => Some(kind),
        _ => None,
    });
    let vlan = || {
        info.iter().find_map(|one| match one {
            LinkInfo::Data(InfoData::Vlan(all)) => all.iter().find_map(|one| match one {
                InfoVlan::Id(id) => Some(*id),
                _ => None,
            }),
            _ => None,
        })
    };
    match kind {
        Some(InfoKind::Veth | InfoKind::Netkit) => InterfaceKind::Pair,
        Some(InfoKind::Vlan) => InterfaceKind::Vlan(vlan().unwrap_or_default()),
        Some(InfoKind::MacVlan | InfoKind::MacVtap | InfoKind::IpVlan | InfoKind::IpVtap) => {
            InterfaceKind::Shared
        }
        Some(InfoKind::Bridge) => InterfaceKind::Bridge,
        Some(InfoKind::Bond | InfoKind::Team) => InterfaceKind::Bond,
        _ => InterfaceKind::Other,
    }
}

/// The descriptors for queries about a network namespace.
struct Descriptors {
    /// A socket of routing netlink in the namespace.
    socket: OwnedFd,
    namespace: OwnedFd,
    /// Device and inode of the namespace.
    identity: (u64, u64),
}

impl Descriptors {
    fn open(namespace: Option<&str>) -> Option<Descriptors> {
        let made = made_in(namespace, || {
            let flags = SockFlag::SOCK_CLOEXEC;
            let family = AddressFamily::Netlink;
            let socket = socket(family, SockType::Raw, flags, SockProtocol::NetlinkRoute);
            let socket = socket.and_then(|socket| {
                bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0)).map(|()| socket)
            });
            let namespace = File::open("/proc/self/ns/net");
            let namespace = namespace.map_err(|_| (SetupStep::EnterNamespace, Errno::ENOENT))?;
            Ok(vec![socket.map_err(|errno| (SetupStep::Netlink, errno))?, namespace.into()])
        });
        let [socket, namespace] = <[OwnedFd; 2]>::try_from(made.ok()?).ok()?;
        let is = fstat(&namespace).ok()?;
        Some(Descriptors { socket, namespace, identity: (is.st_dev, is.st_ino) })
    }

    /// All interfaces of the namespace.
    fn links(&self) -> Vec<LinkMessage> {
        let answers = self.ask(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP);
        let link = |answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        };
        answers.into_iter().filter_map(link).collect()
    }

    /// The number by which this namespace knows another one; `None` if no interface leads there.
    fn id(&self, other: &Descriptors) -> Option<i32> {
        let mut message = NsidMessage::default();
        let descriptor = u32::try_from(other.namespace.as_raw_fd()).ok()?;
        message.attributes = vec![NsidAttribute::Fd(descriptor)];
        let answers = self.ask(RouteNetlinkMessage::GetNsId(message), 0);
        let id = |answer| match answer {
            RouteNetlinkMessage::NewNsId(message) => {
                message.attributes.into_iter().find_map(|one| match one {
                    NsidAttribute::Id(id) => Some(id),
                    _ => None,
                })
            }
            _ => None,
        };
        answers.into_iter().find_map(id).filter(|&id| id >= 0)
    }

    /// The kernel's answer, up to the first part that cannot be parsed.
    fn ask(&self, message: RouteNetlinkMessage, flags: u16) -> Vec<RouteNetlinkMessage> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        let mut answers = Vec::new();
        if send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty()).is_err() {
            return answers;
        }
        let mut buffer = vec![0; 64 << 10];
        loop {
            let received = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty());
            let Ok(length @ 1..) = received else { return answers };
            let mut rest = &buffer[..length];
            while let Some((length, _)) = rest.split_first_chunk::<4>() {
                let length = u32::from_ne_bytes(*length) as usize;
                let Some(one) = rest.get(..length.max(16)) else { break };
                match NetlinkMessage::<RouteNetlinkMessage>::deserialize(one).map(|it| it.payload) {
                    Ok(NetlinkPayload::InnerMessage(answer)) => answers.push(answer),
                    Ok(NetlinkPayload::Done(_) | NetlinkPayload::Error(_)) => return answers,
                    _ => {}
                }
                rest = rest.get(length.next_multiple_of(4).max(16)..).unwrap_or(&[]);
            }
            if flags & NLM_F_DUMP == 0 {
                return answers;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(index: u32, kind: InterfaceKind, below: u32, controller: u32) -> ListedInterface {
        let below = Some(InterfaceNode { space: 0, index: below }).filter(|node| node.index > 0);
        let controller = Some(controller).filter(|index| *index > 0);
        ListedInterface { index, names: vec![format!("i{index}")], kind, below, controller }
    }

    /// The interfaces between two others; `None` if they are not joined.
    fn between(interfaces: &[ListedInterface], a: u32, b: u32) -> Option<Vec<u32>> {
        let listing = NamespaceListing { names: vec![None], interfaces: interfaces.to_vec() };
        let graph = InterfaceGraph { spaces: vec![listing] };
        let [a, b] = [a, b].map(|index| InterfaceNode { space: 0, index });
        let way = graph.way(a, b).or_else(|| graph.way(b, a))?;
        Some(way[1..way.len() - 1].iter().map(|node| node.index).collect())
    }

    #[test]
    fn vlans_are_joined_to_what_carries_their_frames_alone() {
        use InterfaceKind::{Other, Pair, Vlan};
        // A card with two VLANs; a pair with VLAN 5 at one end, VLANs 5 and 6 at the other end, and
        // VLAN 7 within VLAN 5.
        let all = [
            one(1, Other, 0, 0),
            one(2, Vlan(5), 1, 0),
            one(3, Vlan(6), 1, 0),
            one(4, Pair, 5, 0),
            one(5, Pair, 4, 0),
            one(6, Vlan(5), 4, 0),
            one(7, Vlan(5), 5, 0),
            one(8, Vlan(6), 5, 0),
            one(9, Vlan(7), 7, 0),
        ];
        assert_eq!(between(&all, 1, 2), Some(vec![]));
        assert_eq!(between(&all, 2, 3), None, "two VLANs of one card");
        assert_eq!(between(&all, 6, 7), Some(vec![4, 5]));
        assert_eq!(between(&all, 6, 8), None, "5 and 6");
        assert_eq!(between(&all, 5, 6), Some(vec![4]));
        assert_eq!(between(&all, 4, 9), Some(vec![5, 7]));
        assert_eq!(between(&all, 1, 4), None);
    }

    #[test]
    fn ports_of_bridges_and_bonds_are_joined() {
        use InterfaceKind::{Bond, Bridge, Other, Pair, Vlan};
        let all = [
            one(1, Bridge, 0, 0),
            one(2, Other, 0, 1),
            one(3, Pair, 4, 1),
            one(4, Pair, 3, 0),
            one(5, Bond, 0, 0),
            one(6, Other, 0, 5),
            one(7, Other, 0, 5),
            one(8, Vlan(5), 1, 0),
            one(9, Bridge, 0, 0),
        ];
        assert_eq!(between(&all, 2, 3), Some(vec![1]));
        assert_eq!(between(&all, 2, 4), Some(vec![1, 3]));
        assert_eq!(between(&all, 4, 8), Some(vec![3, 1]));
        assert_eq!(between(&all, 6, 5), Some(vec![]));
        assert_eq!(between(&all, 6, 7), None, "a bond passes nothing from port to port");
        assert_eq!(between(&all, 2, 9), None);
    }
}
