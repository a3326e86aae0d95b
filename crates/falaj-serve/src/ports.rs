//! Adapters and the uplink: ports are opened before the link runs, or added and removed by changes.

use crate::upgrade;
use anyhow::{Context, Result, anyhow, bail};
use falaj_control::batching::{Batching, by_timeout};
use falaj_control::running::{Beside, Prepared, Preparer};
use falaj_control::terms::weights;
use falaj_engine::batch::Packer;
use falaj_live::adapters::{
    self, AdapterCounts, Adapters, AdaptersState, Addresses, ClosablePort, OpenedInterface, Opener,
    Space, TapWanted,
};
use falaj_live::backend::batch::{Guest, GuestBatches};
use falaj_live::backend::tap::{Tap, TapPort};
use falaj_live::backend::{Backend, EndName, InterfaceState, Monitor, OpenEnd, OpenOptions, Port};
use falaj_live::sandbox::{Hosts, SideHandover};
use falaj_live::wiring::{space_port, space_tap};
use falaj_scenario::{Adapter, Scenario};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use tracing::{error, info, warn};

/// The error if batches are configured on a host where falaj creates interfaces of another kind
/// than TAP.
const NO_TAP: &str = "`batches` need TAP interfaces, and this host has none; see `falaj doctor`";

/// The name of the uplink in lists of adapters' names. No adapter has an empty name.
const UPLINK: &str = "";

/// A port: the place where packets enter and leave.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PortName {
    /// A namespace that is created for the adapter.
    OwnNamespace,
    /// An existing namespace, in which an interface is created.
    Tap(String),
    /// An existing interface, or a guest's card.
    Existing(EndName),
}

impl PortName {
    fn parse(text: &str) -> Result<PortName> {
        Ok(match (text, text.strip_prefix("tap:")) {
            ("namespace", _) => PortName::OwnNamespace,
            (_, Some("")) => {
                bail!("write the namespace after `tap:`: a name under /run/netns, or a process")
            }
            (_, Some(namespace)) => PortName::Tap(namespace.to_owned()),
            _ => {
                let end = text.parse::<EndName>().map_err(|why| anyhow!(why))?;
                if end.entry().returns_packets {
                    bail!(
                        "a queue of the firewall is for `falaj bridge`: it is neither an adapter \
                         nor an uplink"
                    )
                }
                PortName::Existing(end)
            }
        })
    }

    fn is_space(&self) -> bool {
        matches!(self, PortName::OwnNamespace | PortName::Tap(_))
    }

    /// Checks that packets can cross to this port in batches, as `text` configures them.
    fn check_batches(&self, text: Option<&str>) -> Result<()> {
        let Some(text) = text else { return Ok(()) };
        match self {
            PortName::OwnNamespace | PortName::Tap(_) => text.parse::<Batching>().map(drop),
            PortName::Existing(end) if end.entry().takes_batches => by_timeout(text).map(drop),
            PortName::Existing(_) => Err("batches cross to an interface that falaj makes \
                                       (`namespace`, `tap:NETNS`), or to `memif:PATH`"
                .into()),
        }
        .map_err(|why| anyhow!("`batches`: {why}"))
    }
}

/// Starts the guest that uses this TAP interface of an adapter.
fn guest(opener: &Opener, tap: &Tap, name: &str, batches: &str) -> Result<Guest> {
    tap.take_single_packets().context("the interface of a guest")?;
    let line = opener.guest(batches)?;
    let packer = packer(name, &batches.parse::<Batching>().map_err(|why| anyhow!(why))?)?;
    Guest::at(line, tap, packer).context("cannot start the guest's process")
}

/// Returns the packer that collects packets to an adapter into batches.
fn packer(name: &str, batches: &Batching) -> Result<Packer> {
    Ok(batches.packer(&format!("to {}", called(name)))?)
}

/// Returns the options for opening an end to which packets cross in these batches.
fn open_options(batches: Option<&str>) -> Result<OpenOptions> {
    let batches = batches.map(by_timeout).transpose().map_err(|why| anyhow!(why))?;
    Ok(OpenOptions { batches, ..OpenOptions::default() })
}

fn called(name: &str) -> String {
    if name == UPLINK { "the uplink".into() } else { format!("adapter {name}") }
}

/// An interface, and the monitor of its changes.
struct WatchedInterface {
    name: String,
    interface: Box<dyn Backend>,
    monitor: Monitor,
    /// The last reported new name of the interface.
    renamed: Option<String>,
}

impl WatchedInterface {
    fn new(name: String, (interface, monitor): OpenEnd) -> WatchedInterface {
        WatchedInterface { name, interface, monitor, renamed: None }
    }
}

/// All interfaces that may change.
struct Interfaces {
    epoll: Epoll,
    /// Interfaces by their index in the epoll set.
    all: Vec<Option<WatchedInterface>>,
    /// Batches to the guests of adapters, by adapter.
    guests: BTreeMap<String, GuestBatches>,
}

impl Interfaces {
    fn add(&mut self, watched: WatchedInterface) -> Result<()> {
        let n = self.all.iter().position(Option::is_none).unwrap_or(self.all.len());
        self.epoll.add(watched.monitor.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, n as u64))?;
        match self.all.get_mut(n) {
            Some(gone) => *gone = Some(watched),
            None => self.all.push(Some(watched)),
        }
        Ok(())
    }

    /// Returns the port at the guest of an adapter. From now on the batches of this guest are
    /// counted.
    fn guest(&mut self, name: &str, guest: Guest) -> Result<Box<dyn Port>> {
        let port = guest.port()?;
        self.guests.insert(name.to_owned(), port.batches());
        Ok(Box::new(port))
    }

    /// Adds the counters of batches to the counters of the adapters.
    fn count_batches(&self, adapters: &mut [(String, AdapterCounts)]) {
        let ends = self.all.iter().flatten();
        let ends = ends.filter_map(|end| Some((&end.name, end.interface.batches()?)));
        let guests = self.guests.iter().map(|(name, batches)| (name, batches.counts()));
        let all: BTreeMap<&String, _> = ends.chain(guests).collect();
        if !all.is_empty() {
            adapters.iter_mut().for_each(|(name, of)| of.batches = all.get(name).copied());
        }
    }

    fn remove(&mut self, name: &str) {
        self.guests.remove(name);
        for place in &mut self.all {
            if let Some(watched) = place.take_if(|watched| watched.name == name) {
                let _ = self.epoll.delete(watched.monitor.as_fd());
            }
        }
    }

    /// Logs changes of interfaces, and updates `adapters` with the new names of their interfaces.
    fn look(&mut self, adapters: &Adapters) {
        let mut events = [EpollEvent::empty(); 16];
        let ready = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for event in &events[..ready] {
            let Some(Some(watched)) = self.all.get_mut(event.data() as usize) else { continue };
            watched.monitor.clear();
            if let Some(why) = watched.interface.why() {
                warn!(adapter = watched.name.as_str(), "{}: {why}", called(&watched.name));
            }
            match watched.interface.look() {
                Some(InterfaceState::Up) => {
                    info!(adapter = watched.name.as_str(), "{} is up", called(&watched.name));
                }
                Some(state) => {
                    warn!(
                        adapter = watched.name.as_str(),
                        "{} {state}: waiting for it",
                        called(&watched.name)
                    );
                }
                None => {}
            }
            let renamed = watched.interface.renamed();
            if watched.renamed != renamed {
                if let Some(name) = &renamed {
                    let whose = called(&watched.name);
                    info!(
                        adapter = watched.name.as_str(),
                        "{whose}: its interface was renamed to {name}, and still belongs to {whose}"
                    );
                }
                adapters.interface_is_called(&watched.name, renamed.clone());
                watched.renamed = renamed;
            }
        }
    }
}

/// The identity of an adapter: its name and its port. An adapter with another port is another
/// adapter.
type AdapterPort<'a> = (&'a str, &'a str);

fn known(adapter: &Adapter) -> AdapterPort<'_> {
    (&adapter.name, &adapter.port)
}

/// Returns the adapters that are no longer in the scenario `then`.
fn leaving<'a>(all: &'a [Adapter], then: &Scenario) -> Vec<&'a Adapter> {
    let stay = then.adapters();
    let stay: BTreeSet<AdapterPort<'_>> = stay.iter().map(|adapter| known(adapter)).collect();
    all.iter().filter(|adapter| !stay.contains(&known(adapter))).collect()
}

/// All open ports.
pub(super) struct Opened {
    adapters: Adapters,
    opener: Option<Opener>,
    at: Addresses,
    places: Places,
    mtu: u16,
    stays: bool,
    uplink: Option<Box<dyn Port>>,
    /// A copy of the descriptor with which another process can take the uplink's port over.
    uplink_tap: Option<OwnedFd>,
    interfaces: Rc<RefCell<Interfaces>>,
    epoll: Rc<Epoll>,
    /// Namespaces that this process created, and those inherited from another process.
    hosts: Vec<Hosts>,
    /// For each adapter in its own namespace: the state with which another process can take the
    /// adapter over.
    sides: BTreeMap<String, SideHandover>,
    /// For each adapter in a namespace: its name, the first process in the namespace, and the
    /// address.
    spaces: Vec<(String, i32, Option<std::net::Ipv4Addr>)>,
    known: Vec<Adapter>,
    uplink_name: String,
}

/// Opens the ports of a service. With `stays`, interfaces created in existing namespaces stay when
/// the service ends. The function drops privileges that are no longer needed before the cards of
/// guests start threads. The process must be single-threaded. `inherited` has the descriptors from
/// another process for each adapter; the uplink has the empty name.
pub(super) fn open(
    scenario: &Scenario,
    stays: bool,
    mut inherited: BTreeMap<String, Vec<OwnedFd>>,
    give_up: impl FnOnce() -> Result<()>,
) -> Result<Opened> {
    let opener = Opener::start_for(upgrade::command())?;
    let link = &scenario.links[0];
    let uplink_name = link.uplink.clone().context("a service has an uplink")?;
    let known: Vec<Adapter> = scenario.adapters().into_iter().cloned().collect();
    let uplink = PortName::parse(&uplink_name).context("uplink")?;
    let mut places = vec![(UPLINK.to_owned(), uplink, None)];
    for adapter in &known {
        let batches = adapter.batches.as_deref();
        let place = PortName::parse(&adapter.port)
            .and_then(|place| place.check_batches(batches).map(|()| place));
        let place = place.with_context(|| called(&adapter.name))?;
        places.push((adapter.name.clone(), place, batches));
    }
    let mtu = link.up.mtu.max(link.down.mtu);
    let mtu = u16::try_from(mtu).context("the mtu does not fit an interface")?;

    let mut at = Addresses::free();
    // If the uplink has its own namespace, the other namespaces get addresses too.
    let mut free =
        if places[0].1 == PortName::OwnNamespace { Places::all() } else { Places::default() };
    let mut wanted = Vec::new();
    let is_made = |(name, place, _): &&(String, PortName, Option<&str>)| {
        place.is_space() && !inherited.contains_key(name)
    };
    for (name, place, _) in places.iter().filter(is_made) {
        let namespace =
            if let PortName::Tap(namespace) = place { Some(namespace.clone()) } else { None };
        let stayed =
            namespace.as_deref().filter(|_| stays).map_or(Ok(None), |there| opener.stayed(there));
        wanted.push((name, namespace, stayed.with_context(|| called(name))?));
    }
    // Interfaces that stayed have an address already; the others get free addresses.
    wanted.sort_by_key(|(.., stayed)| stayed.is_none());
    let mut spaces: Vec<(&str, Space)> = Vec::new();
    for (name, namespace, stayed) in wanted {
        spaces.push((name, free.space(name, namespace, stayed, at).with_context(|| called(name))?));
    }
    // Interfaces that are to stay must not be created in the namespaces of `adapters::start`, which
    // end with this process.
    let (kept, spaces): (Vec<_>, Vec<_>) =
        spaces.into_iter().partition(|(_, s)| stays && s.namespace.is_some());
    let wanted: Vec<Space> = spaces.iter().map(|(_, space)| space.clone()).collect();
    let mut hosts = if wanted.is_empty() { None } else { Some(adapters::start(&wanted, at, mtu)?) };
    let (mut sides, mut adopted) = (BTreeMap::new(), Vec::new());
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let outside = Rc::new(Epoll(epoll.0.try_clone()?));
    let mut interfaces = Interfaces { epoll, all: Vec::new(), guests: BTreeMap::new() };
    let (all, mut uplink) = (Adapters::new()?, None);
    let mut told = Vec::new();
    // Ends that start threads come last: other namespaces can only be entered by a single-threaded
    // process.
    let brings_threads =
        |place: &PortName| matches!(place, PortName::Existing(end) if end.entry().starts_threads);
    let mut order: Vec<_> = places.iter().collect();
    order.sort_by_key(|(_, place, _)| brings_threads(place));
    let mut give_up = Some(give_up);
    for (name, place, batches) in order {
        if brings_threads(place) {
            give_up.take().map_or(Ok(()), |give_up| give_up())?;
        }
        let (port, mac) = match (place, inherited.remove(name)) {
            (PortName::Existing(end), Some(descriptors)) => {
                let (port, end) = adopt(end, descriptors).with_context(|| called(name))?;
                interfaces.add(WatchedInterface::new(name.clone(), end))?;
                (port, None)
            }
            (_, Some(mut descriptors)) => {
                let tap = descriptors.pop().with_context(|| called(name))?;
                let (port, mac) = adapters::adopt_tap(tap, &called(name))?;
                if let Some((of, place)) = Addresses::of(mac) {
                    at = of;
                    free.take(name, place);
                }
                if let Ok(side) = <[OwnedFd; SideHandover::DESCRIPTORS]>::try_from(descriptors) {
                    adopted.push((name.clone(), side, mac));
                }
                (Box::new(port) as Box<dyn Port>, Some(mac))
            }
            (PortName::Existing(end), None) => {
                let opened = there(end, *batches, &opener).with_context(|| called(name))?;
                let (port, (interface, monitor)) = opened;
                interfaces.add(WatchedInterface::new(name.clone(), (interface, monitor)))?;
                (port, None)
            }
            (PortName::OwnNamespace | PortName::Tap(_), None) => {
                if let Some((_, space)) = kept.iter().find(|(known, _)| known == name) {
                    let opened = opener
                        .tap(&TapWanted { space: space.clone(), at, mtu, stays }, &called(name));
                    let (port, mac) = opened.with_context(|| called(name))?;
                    let port = match batches {
                        Some(batches) => guest(&opener, &port.into_tap(), name, batches)
                            .and_then(|guest| interfaces.guest(name, guest))
                            .with_context(|| called(name))?,
                        None => Box::new(port) as Box<dyn Port>,
                    };
                    (port, Some(mac))
                } else {
                    let side = spaces
                        .iter()
                        .position(|(known, _)| known == name)
                        .context("a space for each")?;
                    let hosts = hosts.as_mut().context("spaces were made")?;
                    let space = &spaces[side].1;
                    if *place == PortName::OwnNamespace {
                        sides.insert(name.clone(), hosts.handover(side)?);
                    }
                    told.push((
                        name.clone(),
                        hosts.pid(side),
                        space.place.map(|place| at.address(place)),
                    ));
                    let port = match batches {
                        Some(batches) => space_tap(hosts, side)
                            .context(NO_TAP)
                            .and_then(|tap| guest(&opener, &tap, name, batches))
                            .and_then(|guest| interfaces.guest(name, guest))
                            .with_context(|| called(name))?,
                        None => space_port(hosts, side, &called(name))?,
                    };
                    (port, Some(space.mac))
                }
            }
        };
        if name == UPLINK {
            uplink = Some(port);
        } else {
            all.add(name, port, mac)?;
        }
    }
    let mut hosts: Vec<Hosts> = hosts.into_iter().collect();
    if !adopted.is_empty() {
        let (names, descriptors): (Vec<_>, Vec<_>) =
            adopted.into_iter().map(|(name, side, mac)| ((name, mac), side)).unzip();
        let adopted = Hosts::adopt(descriptors)?;
        for (side, (name, mac)) in names.into_iter().enumerate() {
            sides.insert(name.clone(), adopted.handover(side)?);
            let place = Addresses::of(mac).map(|(at, place)| at.address(place));
            told.push((name, adopted.pid(side), place));
        }
        hosts.push(adopted);
    }
    give_up.take().map_or(Ok(()), |give_up| give_up())?;
    all.set_weights(&weights(scenario));
    Ok(Opened {
        adapters: all,
        opener: Some(opener),
        at,
        places: free,
        mtu,
        stays,
        uplink,
        uplink_tap: None,
        interfaces: Rc::new(RefCell::new(interfaces)),
        epoll: outside,
        hosts,
        sides,
        spaces: told,
        known,
        uplink_name,
    })
}

/// The names of a service's existing interfaces in this namespace.
pub(super) fn here(scenario: &Scenario) -> Result<Vec<String>> {
    let uplinks = scenario.links.iter().filter_map(|link| link.uplink.as_ref());
    let ports = uplinks.chain(scenario.adapters().into_iter().map(|adapter| &adapter.port));
    let mut names = Vec::new();
    for port in ports {
        if let PortName::Existing(end) = PortName::parse(port)?
            && let Some(name) = end.interface()
            && name.namespace.is_none()
        {
            names.push(name.interface.clone());
        }
    }
    Ok(names)
}

/// The sockets that the ports of a service create in the file system. A port whose name cannot be
/// parsed has no socket; the error is reported when the port is opened.
pub(super) fn sockets(scenario: &Scenario) -> Vec<PathBuf> {
    let uplinks = scenario.links.iter().filter_map(|link| link.uplink.as_ref());
    let ports = uplinks.chain(scenario.adapters().into_iter().map(|adapter| &adapter.port));
    let socket = |port: &String| match PortName::parse(port) {
        Ok(PortName::Existing(end)) => end.socket().map(Path::to_owned),
        _ => None,
    };
    ports.filter_map(socket).collect()
}

/// Opens an existing interface or guest's card, and its port.
fn there(
    end: &EndName,
    batches: Option<&str>,
    opener: &Opener,
) -> Result<(Box<dyn Port>, OpenEnd)> {
    match end.interface() {
        Some(name) => {
            let OpenedInterface { socket, port, monitor } = opener.interface(name)?;
            Ok((Box::new(port), (Box::new(socket), monitor)))
        }
        None => {
            let (interface, monitor) = end.open(&open_options(batches)?)?;
            Ok((interface.port()?, (interface, monitor)))
        }
    }
}

/// Takes over an interface from another process, and opens its port.
fn adopt(end: &EndName, descriptors: Vec<OwnedFd>) -> Result<(Box<dyn Port>, OpenEnd)> {
    let name = end.interface().context("only interfaces are handed over")?;
    let OpenedInterface { socket, port, monitor } = OpenedInterface::adopt(name, descriptors)?;
    Ok((Box::new(port), (Box::new(socket), monitor)))
}

impl Opened {
    pub(super) fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    pub(super) fn take_uplink(&mut self) -> Result<Box<dyn Port>> {
        let uplink = self.uplink.take().context("one uplink")?;
        self.uplink_tap = uplink.descriptor().map(|fd| fd.try_clone_to_owned()).transpose()?;
        Ok(uplink)
    }

    /// A descriptor that is readable when an interface has changed.
    pub(super) fn changes(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    pub(super) fn look(&self) {
        self.interfaces.borrow_mut().look(&self.adapters);
    }

    /// Returns, for each adapter in a namespace, the id of a process there.
    pub(super) fn processes(&self) -> BTreeMap<String, i32> {
        self.spaces.iter().map(|(name, process, _)| (name.clone(), *process)).collect()
    }

    /// Prints the namespaces and their addresses.
    pub(super) fn tell(&self) {
        for (name, process, address) in &self.spaces {
            let address = address.map_or(String::new(), |address| format!(" {address},"));
            note!("{}:{address} in the network namespace of process {process}", called(name));
        }
    }

    /// Returns the number of packets that were lost because they were not read in time, if it is
    /// known.
    pub(super) fn unread(&self) -> Option<u64> {
        let interfaces = self.interfaces.borrow();
        let of: u64 =
            interfaces.all.iter().flatten().map(|watched| watched.interface.unread()).sum();
        Some(of + self.hosts.iter().map(Hosts::unread).sum::<Option<u64>>()?)
    }

    /// Sets whether the created namespaces belong to another process and do not end with this one.
    pub(super) fn set_left(&mut self, left: bool) {
        self.hosts.iter_mut().for_each(|hosts| hosts.set_left(left));
    }

    /// Takes the objects that apply changes and that open adapters for changes. May be called only
    /// once.
    pub(super) fn changing(&mut self) -> Result<(Box<dyn Beside>, Box<dyn Preparer>)> {
        let opener = self.opener.take().context("taken once")?;
        let fleet = Fleet {
            adapters: self.adapters.clone(),
            interfaces: Rc::clone(&self.interfaces),
            uplink_tap: self.uplink_tap.take(),
            sides: std::mem::take(&mut self.sides),
        };
        let preparer = AdapterOpener {
            opener,
            at: self.at,
            places: self.places.clone(),
            mtu: self.mtu,
            stays: self.stays,
            known: self.known.clone(),
            uplink: self.uplink_name.clone(),
            before: None,
        };
        Ok((Box::new(fleet), Box::new(preparer)))
    }
}

/// Creates the objects that apply changes and open adapters, for a link whose adapters were opened
/// elsewhere.
pub(super) fn changing(
    adapters: &Adapters,
    opener: Opener,
    scenario: &Scenario,
) -> Result<(Box<dyn Beside>, Box<dyn Preparer>)> {
    let interfaces = Interfaces {
        epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
        all: Vec::new(),
        guests: BTreeMap::new(),
    };
    let link = scenario.links.first().context("a service has one link")?;
    let mtu = u16::try_from(link.up.mtu.max(link.down.mtu))
        .context("the mtu does not fit an interface")?;
    let fleet = Fleet {
        adapters: adapters.clone(),
        interfaces: Rc::new(RefCell::new(interfaces)),
        uplink_tap: None,
        sides: BTreeMap::new(),
    };
    let preparer = AdapterOpener {
        opener,
        at: Addresses::free(),
        places: Places::default(),
        mtu,
        stays: false,
        known: scenario.adapters().into_iter().cloned().collect(),
        uplink: link.uplink.clone().context("a service has an uplink")?,
        before: None,
    };
    Ok((Box::new(fleet), Box::new(preparer)))
}

/// The addresses in the subnet of the namespaces, and the adapters that own them.
#[derive(Clone, Debug, Default)]
struct Places {
    /// True if there is a subnet; without one there are no addresses.
    addressed: bool,
    /// Free addresses. The most recently freed address is reused last, because packets to it may
    /// still be on their way.
    free: VecDeque<u8>,
    of: BTreeMap<String, u8>,
}

impl Places {
    fn all() -> Places {
        let free = (Addresses::UPLINK + 1..=Addresses::LAST).collect();
        Places { addressed: true, free, of: BTreeMap::new() }
    }

    /// Returns a namespace for this adapter, or for the uplink. `stayed` is the Ethernet address of
    /// an interface that stayed from an earlier service.
    fn space(
        &mut self,
        name: &str,
        namespace: Option<String>,
        stayed: Option<[u8; 6]>,
        at: Addresses,
    ) -> Result<Space> {
        if !self.addressed {
            return Ok(Space::bare(namespace));
        }
        if name == UPLINK {
            return Ok(Space::placed(namespace, at, Addresses::UPLINK));
        }
        let most = Addresses::LAST - Addresses::UPLINK;
        let place = match stayed.and_then(|mac| at.place(mac)) {
            Some(had) => {
                let free = self
                    .free
                    .iter()
                    .position(|&place| place == had)
                    .and_then(|n| self.free.remove(n));
                free.with_context(|| {
                    format!(
                        "the interface that an earlier service left in the adapter's namespace has \
                         {}, which now belongs to another adapter: delete that interface",
                        at.address(had)
                    )
                })?
            }
            None => self.free.pop_front().with_context(|| {
                format!(
                    "at most {most} adapters have addresses behind an uplink that is a namespace: \
                     use an interface as the uplink"
                )
            })?,
        };
        self.of.insert(name.to_owned(), place);
        Ok(Space::placed(namespace, at, place))
    }

    /// Marks an address as taken: the adapter already had this address in the process from which it
    /// was taken over.
    fn take(&mut self, name: &str, place: u8) {
        self.free.retain(|&free| free != place);
        if self.addressed && name != UPLINK {
            self.of.insert(name.to_owned(), place);
        }
    }

    /// Frees the address of an adapter, which is reused last.
    fn leave(&mut self, name: &str) {
        self.free.extend(self.of.remove(name));
    }
}

/// The opened port of an adapter that is being added.
enum OpenedPort {
    Interface(OpenedInterface),
    /// A TAP port, and its Ethernet address.
    Tap(TapPort, [u8; 6]),
    /// A guest that uses a TAP interface, and its Ethernet address.
    Guest(Box<Guest>, [u8; 6]),
    /// A guest's card or another program's memory, still to be opened. The thread that uses its
    /// port opens it, because an open end belongs to one thread. Opening never blocks.
    End(EndName, OpenOptions),
}

/// The adapters that a change adds and removes.
struct AdapterArrivals {
    coming: Vec<(String, OpenedPort)>,
    leaving: Vec<String>,
    /// New settings of batches for guests of adapters that stay.
    repacked: Vec<(String, Batching)>,
    then: Arc<Scenario>,
}

/// Opens the ports of adapters that are added while the link runs.
struct AdapterOpener {
    opener: Opener,
    at: Addresses,
    places: Places,
    mtu: u16,
    /// True if TAPs in namespaces stay when this process ends.
    stays: bool,
    known: Vec<Adapter>,
    uplink: String,
    /// Addresses and adapters before the change, to be restored if the change fails.
    before: Option<(Places, Vec<Adapter>)>,
}

impl AdapterOpener {
    fn open_port(&mut self, adapter: &Adapter) -> Result<OpenedPort> {
        let batches = adapter.batches.as_deref();
        let port = PortName::parse(&adapter.port)?;
        port.check_batches(batches)?;
        match port {
            PortName::Existing(end) => Ok(match end.interface() {
                Some(name) => OpenedPort::Interface(self.opener.interface(name)?),
                None => OpenedPort::End(end, open_options(batches)?),
            }),
            PortName::Tap(namespace) => {
                let stayed = if self.stays { self.opener.stayed(&namespace)? } else { None };
                let space = self.places.space(&adapter.name, Some(namespace), stayed, self.at)?;
                let wanted = TapWanted { space, at: self.at, mtu: self.mtu, stays: self.stays };
                let (port, mac) = self.opener.tap(&wanted, &called(&adapter.name))?;
                Ok(match batches {
                    Some(batches) => {
                        let guest = guest(&self.opener, &port.into_tap(), &adapter.name, batches)?;
                        OpenedPort::Guest(Box::new(guest), mac)
                    }
                    None => OpenedPort::Tap(port, mac),
                })
            }
            PortName::OwnNamespace => {
                bail!(
                    "a namespace of its own is only made at the start: write `tap:NETNS` with one \
                     that is there, or start the service anew"
                )
            }
        }
    }
}

impl Preparer for AdapterOpener {
    fn prepare(&mut self, then: &Arc<Scenario>) -> Result<Prepared, String> {
        let [link] = &then.links[..] else { return Err("a service has one link".into()) };
        if link.uplink.as_deref() != Some(&self.uplink) {
            return Err(format!(
                "the uplink cannot change while the service runs: it is `{}`",
                self.uplink
            ));
        }
        let known: BTreeMap<AdapterPort<'_>, &Adapter> =
            self.known.iter().map(|adapter| (known(adapter), adapter)).collect();
        let (mut new, mut repacked) = (Vec::new(), Vec::new());
        for adapter in then.adapters() {
            match known.get(&self::known(adapter)) {
                None => new.push(adapter.clone()),
                Some(before) if before.batches != adapter.batches => {
                    repacked.push((adapter.name.clone(), other_batches(before, adapter)?));
                }
                Some(_) => {}
            }
        }
        let mut coming = Vec::new();
        let before = self.places.clone();
        let leaving: Vec<String> =
            leaving(&self.known, then).into_iter().map(|gone| gone.name.clone()).collect();
        leaving.iter().for_each(|gone| self.places.leave(gone));
        for adapter in &new {
            match self.open_port(adapter) {
                Ok(port) => coming.push((adapter.name.clone(), port)),
                Err(error) => {
                    self.places = before;
                    return Err(format!("{}: {error:#}", called(&adapter.name)));
                }
            }
        }
        let then_known = then.adapters().into_iter().cloned().collect();
        self.before = Some((before, std::mem::replace(&mut self.known, then_known)));
        Ok(Box::new(AdapterArrivals { coming, leaving, repacked, then: Arc::clone(then) }))
    }

    fn start_successor(&mut self) -> Result<(), String> {
        self.opener.start_command().map_err(|error| error.to_string())
    }

    fn settle(&mut self, made: bool) {
        if let Some(before) = self.before.take().filter(|_| !made) {
            (self.places, self.known) = before;
        }
    }
}

/// Returns the new settings of batches of an adapter that stays.
fn other_batches(before: &Adapter, then: &Adapter) -> Result<Batching, String> {
    let name = called(&then.name);
    let place = PortName::parse(&then.port).map_err(|why| why.to_string())?;
    match (&before.batches, &then.batches) {
        (Some(_), Some(batches)) if place.is_space() => {
            batches.parse().map_err(|why| format!("{name}: `batches`: {why}"))
        }
        _ => Err(format!(
            "{name}: while it is there, `batches` can only change from one value to another, and \
             not with `memif:PATH`: remove the adapter and add it again"
        )),
    }
}

/// The adapters of the running link.
struct Fleet {
    adapters: Adapters,
    interfaces: Rc<RefCell<Interfaces>>,
    uplink_tap: Option<OwnedFd>,
    sides: BTreeMap<String, SideHandover>,
}

impl Fleet {
    /// Copies of the descriptors with which another process can take a port over.
    fn descriptors(&self, name: &str, port: &str) -> Result<Vec<OwnedFd>> {
        let place = PortName::parse(port)?;
        match &place {
            PortName::OwnNamespace | PortName::Tap(_) => {
                let mut all = Vec::new();
                if place == PortName::OwnNamespace {
                    let side = self.sides.get(name).context("its namespace is gone")?;
                    all.extend(side.descriptors().context("its namespace is gone")?);
                }
                all.push(if name == UPLINK {
                    let tap = self.uplink_tap.as_ref().context("its interface is gone")?;
                    tap.try_clone()?
                } else {
                    self.adapters.descriptor(name).context("its interface is gone")?
                });
                Ok(all)
            }
            PortName::Existing(_) => {
                let interfaces = self.interfaces.borrow();
                let mut all = interfaces.all.iter().flatten();
                let watched = all.find(|watched| watched.name == name);
                let watched = watched.context("its interface is gone")?;
                let Some([socket, name, number]) = watched.interface.descriptors() else {
                    bail!(
                        "the memory of `{port}` belongs to this process and cannot be handed over"
                    )
                };
                let all = [socket, watched.monitor.as_fd(), name, number];
                Ok(all.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<_, _>>()?)
            }
        }
    }

    fn add(&self, name: &str, coming: OpenedPort, interfaces: &mut Interfaces) -> Result<()> {
        let (interface, monitor): OpenEnd = match coming {
            OpenedPort::Tap(port, mac) => {
                let port = ClosablePort::ByAnybody(Box::new(port));
                return Ok(self.adapters.add(name, port, Some(mac))?);
            }
            OpenedPort::Interface(OpenedInterface { socket, port, monitor }) => {
                self.adapters.add(name, ClosablePort::ByAnybody(Box::new(port)), None)?;
                (Box::new(socket), monitor)
            }
            OpenedPort::Guest(guest, mac) => {
                let port = interfaces.guest(name, *guest)?;
                return Ok(self.adapters.add(name, port, Some(mac))?);
            }
            OpenedPort::End(end, options) => {
                let (interface, monitor) = end.open(&options)?;
                self.adapters.add(name, interface.port()?, None)?;
                (interface, monitor)
            }
        };
        interfaces.add(WatchedInterface::new(name.to_owned(), (interface, monitor)))
    }
}

impl Beside for Fleet {
    fn change(&mut self, prepared: Prepared) -> Vec<Prepared> {
        let arrivals = match prepared.downcast::<AdapterArrivals>() {
            Ok(arrivals) => arrivals,
            Err(others) => return vec![others],
        };
        let AdapterArrivals { coming, leaving, repacked, then } = *arrivals;
        let mut interfaces = self.interfaces.borrow_mut();
        let mut left = Vec::new();
        for gone in &leaving {
            interfaces.remove(gone);
            left.extend(self.adapters.remove(gone));
            info!(adapter = gone.as_str(), "{} was removed", called(gone));
        }
        for (name, coming) in coming {
            match self.add(&name, coming, &mut interfaces) {
                Ok(()) => info!(adapter = name.as_str(), "{} was added", called(&name)),
                Err(error) => {
                    error!(adapter = name.as_str(), "{} cannot be read: {error:#}", called(&name));
                }
            }
        }
        for (name, batches) in repacked {
            let Some(guest) = interfaces.guests.get(&name) else { continue };
            let packed = packer(&name, &batches)
                .and_then(|packer| Ok(guest.repack(packer, batches.text())?));
            if let Err(error) = packed {
                error!(
                    adapter = name.as_str(),
                    "{}: the batches are not changed: {error:#}",
                    called(&name)
                );
            }
        }
        self.adapters.set_weights(&weights(&then));
        left
    }

    fn weigh(&mut self, weights: &BTreeMap<&str, u32>) {
        self.adapters.set_weights(weights);
    }

    fn pause(&self, name: &str, paused: bool) -> Result<(), String> {
        match self.adapters.pause(name, paused) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{} does not exist", called(name))),
            Err(error) => Err(format!("{}: {error}", called(name))),
        }
    }

    fn counts(&self) -> Vec<(String, AdapterCounts)> {
        let mut counts = self.adapters.counts();
        self.interfaces.borrow().count_batches(&mut counts);
        counts
    }

    fn unread_and_unknown(&self) -> [u64; 2] {
        let interfaces = self.interfaces.borrow();
        let unread = interfaces.all.iter().flatten().map(|watched| watched.interface.unread());
        [unread.sum(), self.adapters.unknown()]
    }

    fn ports(&self, scenario: &Scenario) -> Result<Vec<(String, Vec<OwnedFd>)>, String> {
        let uplinks = scenario.links.iter().filter_map(|link| link.uplink.as_deref());
        let adapters = scenario.adapters().into_iter().map(|a| (&a.name[..], &a.port[..]));
        if let Some(adapter) = scenario.adapters().into_iter().find(|a| a.batches.is_some()) {
            let name = called(&adapter.name);
            return Err(format!("{name}: an adapter with batches cannot be handed over"));
        }
        let all = uplinks.map(|port| (UPLINK, port)).chain(adapters);
        all.map(|(name, port)| {
            let descriptors = self.descriptors(name, port);
            let descriptors = descriptors.map_err(|why| format!("{}: {why:#}", called(name)))?;
            Ok((name.to_owned(), descriptors))
        })
        .collect()
    }

    fn state(&self) -> AdaptersState {
        self.adapters.state()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_stayed_has_the_place_that_it_had() {
        let at = Addresses::default();
        let mut places = Places::all();
        assert_eq!(places.space("late", None, Some(at.mac(7)), at).unwrap().place, Some(7));
        let others: Vec<_> =
            (0..8).map(|n| places.space(&n.to_string(), None, None, at).unwrap().place).collect();
        assert_eq!(others, [2, 3, 4, 5, 6, 8, 9, 10].map(Some));
        let error = places.space("again", None, Some(at.mac(3)), at).unwrap_err().to_string();
        assert!(error.contains("10.77.0.3, which now belongs to another"), "{error}");
        // The Ethernet address is not one of falaj; it was changed.
        assert_eq!(
            places.space("own", None, Some([2, 0, 0, 0, 0, 1]), at).unwrap().place,
            Some(11)
        );
    }

    #[test]
    fn a_place_is_free_again_when_its_adapter_has_left() {
        let at = Addresses::default();
        let mut places = Places::all();
        let mut taken = Vec::new();
        // Takes and frees addresses one after the other, four times their number.
        for n in 0..1_000 {
            let name = format!("a{}", n % 3);
            taken.push(places.space(&name, None, None, at).unwrap().place);
            places.leave(&name);
        }
        // An address is reused as late as possible.
        assert!(taken.windows(250).all(|few| few.iter().collect::<BTreeSet<_>>().len() == 250));
        let all = 253 - places.of.len();
        (0..all).for_each(|n| drop(places.space(&format!("b{n}"), None, None, at).unwrap()));
        let error = places.space("more", None, None, at).unwrap_err().to_string();
        assert!(error.contains("at most 253 adapters"), "{error}");
        // In a full subnet a new adapter gets the address of an adapter that leaves at the same
        // instant, and a name may be used again.
        for (goes, comes) in [("b7", "late"), ("b100", "b100")] {
            let left = places.of[goes];
            places.leave(goes);
            assert_eq!(places.space(comes, None, None, at).unwrap().place, Some(left));
        }
        assert_eq!((places.of.len(), places.free.len()), (253, 0));
        // If the uplink is an existing interface, there is no such limit.
        let mut bare = Places::default();
        assert!(
            (0..1_000).all(|n| bare.space(&n.to_string(), None, None, at).unwrap().place.is_none())
        );
    }
}
