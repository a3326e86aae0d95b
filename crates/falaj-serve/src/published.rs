//! The last sample of the watch for other threads, updated by later changes, so that a request
//! after a change sees the change.

use super::breaches::{self, keep};
use super::history::History;
use super::metrics;
use super::model::{Adapter, Breach, Bucket, Delays, Flow, FlowHistory, Guarantee, Sample};
use super::watch::{Looked, flow_name};
use axum::body::Bytes;
use falaj_control::handler::Current;
use falaj_control::terms::ways;
use falaj_plan::standing::Standing;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::broadcast;

/// Maximum number of samples that a slow listener may lag behind.
const BEHIND: usize = 4;

/// A text for Prometheus, and the time of its sample.
type Scrape = Mutex<Option<(u64, Bytes)>>;

/// The last sample, and the last change after that sample, if there is one.
#[derive(Default)]
struct Newest {
    sample: Arc<Sample>,
    change: Option<Current>,
}

/// The published results of the watch.
pub(super) struct Published {
    newest: Mutex<Newest>,
    /// The sample as JSON, serialized once for all requests.
    json: RwLock<Bytes>,
    /// The sample as OpenMetrics, written on the first request: by adapter, and by flow.
    openmetrics: [Scrape; 2],
    breaches: RwLock<VecDeque<Breach>>,
    history: RwLock<History>,
    /// Flows at the last sample.
    flows: RwLock<Arc<Looked>>,
    pub(super) news: broadcast::Sender<Arc<Sample>>,
}

impl Published {
    pub(super) fn new() -> Arc<Published> {
        Arc::new(Published {
            newest: Mutex::default(),
            json: RwLock::new(json(&Sample::default())),
            openmetrics: Default::default(),
            breaches: RwLock::new(breaches::none()),
            history: RwLock::default(),
            flows: RwLock::default(),
            news: broadcast::channel(BEHIND).0,
        })
    }

    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last sample.
    pub(super) fn sample(&self) -> Arc<Sample> {
        Arc::clone(&self.newest().sample)
    }

    /// The last sample as JSON.
    pub(super) fn json(&self) -> Bytes {
        self.json.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last sample as OpenMetrics, by adapter or by flow. With thousands of adapters this takes
    /// some time.
    pub(super) fn openmetrics(&self, flows: bool) -> Bytes {
        let sample = self.sample();
        let mut written =
            self.openmetrics[usize::from(flows)].lock().unwrap_or_else(PoisonError::into_inner);
        match &*written {
            Some((at, text)) if *at == sample.at_ns => text.clone(),
            _ => {
                let text = Bytes::from(metrics::text(&sample, flows));
                *written = Some((sample.at_ns, text.clone()));
                text
            }
        }
    }

    /// The last violations, oldest first.
    pub(super) fn breaches(&self) -> Vec<Breach> {
        self.breaches.read().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The last hour of an adapter.
    pub(super) fn history(&self, adapter: &Adapter) -> Vec<FlowHistory> {
        self.history.read().unwrap_or_else(PoisonError::into_inner).of(adapter)
    }

    /// Delays of an adapter's packets, by flow.
    pub(super) fn delays(&self, adapter: &Adapter) -> Vec<Delays> {
        let flows = Arc::clone(&self.flows.read().unwrap_or_else(PoisonError::into_inner));
        let of = |way: &str, flow: &str| match flows.get(&flow_name(&adapter.link, way, flow)) {
            Some(looked) => {
                looked.measured.delay.counts().map(|(delay, times)| [delay.0, times]).collect()
            }
            None => Vec::new(),
        };
        let mut names: Vec<&str> =
            adapter.up.iter().chain(&adapter.down).map(|flow| flow.flow.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .map(|flow| Delays {
                flow: flow.to_owned(),
                up: of("up", flow),
                down: of("down", flow),
            })
            .collect()
    }

    /// Updates the sample at once when an adapter is paused or resumed.
    pub(super) fn pauses(&self, name: &str, paused: bool) {
        self.rewrite(&mut self.newest(), |sample| {
            let adapter = sample.adapters.iter_mut().find(|adapter| adapter.name == name);
            adapter.into_iter().for_each(|adapter| adapter.paused = paused);
        });
    }

    /// Updates the sample's adapters and guarantees at once after a change.
    pub(super) fn changed(&self, current: Current) {
        let mut newest = self.newest();
        if newest.change.as_ref().is_some_and(|change| change.changes > current.changes) {
            return;
        }
        self.rewrite(&mut newest, |sample| become_current(sample, &current));
        newest.change = Some(current);
    }

    fn rewrite(&self, newest: &mut Newest, change: impl FnOnce(&mut Sample)) {
        change(Arc::make_mut(&mut newest.sample));
        *self.json.write().unwrap_or_else(PoisonError::into_inner) = json(&newest.sample);
        for scrape in &self.openmetrics {
            *scrape.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Publishes a sample and new violations; `changes` is the number of changes made before the
    /// sample. Returns the previous state of the flows, unless another thread still reads it.
    pub(super) fn publish(
        &self,
        (mut sample, changes): (Sample, u64),
        flows: &Arc<Looked>,
        new: Vec<Breach>,
    ) -> Option<Looked> {
        let mut published = self.flows.write().unwrap_or_else(PoisonError::into_inner);
        let until_now = std::mem::replace(&mut *published, Arc::clone(flows));
        drop(published);
        let mut newest = self.newest();
        match &newest.change {
            Some(later) if later.changes > changes => become_current(&mut sample, later),
            _ => newest.change = None,
        }
        newest.sample = Arc::new(sample);
        *self.json.write().unwrap_or_else(PoisonError::into_inner) = json(&newest.sample);
        let sample = Arc::clone(&newest.sample);
        drop(newest);
        self.history.write().unwrap_or_else(PoisonError::into_inner).push(&sample);
        let mut breaches = self.breaches.write().unwrap_or_else(PoisonError::into_inner);
        keep(&mut breaches, new);
        // There may be no listener.
        let _ = self.news.send(sample);
        Arc::into_inner(until_now)
    }
}

fn json(sample: &Sample) -> Bytes {
    // Numbers, strings and lists of them can always be serialized.
    serde_json::to_vec(sample).unwrap_or_default().into()
}

/// Updates a sample with the adapters and guarantees of a later scenario. Counters stay the same;
/// the counters of new adapters are zero.
fn become_current(sample: &mut Sample, current: &Current) {
    let mut before: BTreeMap<String, Adapter> =
        sample.adapters.drain(..).map(|adapter| (adapter.name.clone(), adapter)).collect();
    let (scenario, standings) = (&current.scenario, &current.standings);
    let mut places = BTreeMap::new();
    let mut flows_before = Vec::new();
    for now in scenario.adapters() {
        let mut adapter = before.remove(&now.name).unwrap_or_default();
        (adapter.name, adapter.port) = (now.name.clone(), now.port.clone());
        flows_before.push([std::mem::take(&mut adapter.up), std::mem::take(&mut adapter.down)]);
        places.insert(&now.name[..], sample.adapters.len());
        sample.adapters.push(adapter);
    }
    let named = ways(scenario);
    let of = scenario.links.iter().flat_map(|link| [(0, link, &link.up), (1, link, &link.down)]);
    for (pipe, ((way, link, direction), named)) in of.zip(named).enumerate() {
        for (f, flow) in direction.flows.iter().enumerate() {
            let standing = standings.get(pipe).and_then(|of| of.get(f));
            let place = flow.adapter.as_ref().and_then(|at| places.get(&at.name[..]));
            let (Some(standing), Some(&place)) = (standing, place) else { continue };
            let known: &mut Vec<Flow> = &mut flows_before[place][way];
            let at = known.iter().position(|known| known.flow == flow.name);
            let known = at.map(|at| known.swap_remove(at));
            let flow = Flow {
                flow: flow.name.clone(),
                guarantee: guarantee(standing, named.judged(f, standing)),
                ..known.unwrap_or_default()
            };
            let adapter = &mut sample.adapters[place];
            adapter.link.clone_from(&link.name);
            if way == 0 { adapter.up.push(flow) } else { adapter.down.push(flow) }
        }
    }
}

/// Converts the guarantee of a flow to the JSON model.
pub(super) fn guarantee(standing: &Standing, [judges_rate, judges_delay]: [bool; 2]) -> Guarantee {
    Guarantee {
        rate: standing.rate.map(|(rate, _)| rate.0),
        delay_ns: standing.delay.as_ref().map(|(delay, _)| delay.0),
        formula: standing.delay.as_ref().map(|(_, formula)| formula.clone()),
        envelope: standing
            .envelope
            .iter()
            .map(|(rate, burst)| Bucket { rate: rate.0, burst_bytes: *burst })
            .collect(),
        required_rate: standing.requires.rate.map(|rate| rate.0),
        required_delay_ns: standing.requires.delay.map(|delay| delay.0),
        none: standing.none.clone(),
        judges_rate,
        judges_delay,
    }
}
