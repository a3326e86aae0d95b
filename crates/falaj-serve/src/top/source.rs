//! The running link as the source of samples and the target of changes.

use super::http::HttpClient as Http;
use super::seen::ScreenSample;
use super::state::WantedChange;
use crate::model::{Problem, Sample, Service};
use anyhow::{Context, Result};
use falaj_control::client::{Client, LinkSelection, add_rates};
use falaj_control::protocol::{
    LinksReport, Refusal, Remark, ScenarioAnswer, SetAnswer, SetRequest,
};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::{Value as Json, json};
use std::path::Path;

/// A running link.
pub(super) enum RunningLink {
    /// A service, through its API.
    Service { http: Http, about: String },
    /// Any link, through its control socket, with its last report.
    Link { client: Box<Client>, before: Option<Box<LinksReport>> },
}

impl RunningLink {
    /// Finds the running link.
    pub(super) fn find(api: Option<&Path>, which: &LinkSelection) -> Result<RunningLink> {
        if let Some(path) = api {
            return RunningLink::service(path).with_context(|| format!("--api {}", path.display()));
        }
        let client = which.connect().context(
            "no running link was found; start a service by `falaj serve FILE`, and name its socket \
             by --api",
        )?;
        let beside = client.path.with_extension("http");
        if client.hello.command == "serve" && beside.exists() {
            return RunningLink::service(&beside);
        }
        Ok(RunningLink::Link { client: Box::new(client), before: None })
    }

    fn service(path: &Path) -> Result<RunningLink> {
        let http = Http::new(path)?;
        let service: Service = http.get("/v1")?;
        let about = format!("falaj serve {} (pid {})", service.file, service.pid);
        Ok(RunningLink::Service { http, about })
    }

    /// Returns true if the first sample already has rates. Otherwise rates need two samples.
    pub(super) fn has_rates(&self) -> bool {
        matches!(self, RunningLink::Service { .. })
    }

    /// Takes a sample.
    pub(super) fn look(&mut self) -> Result<ScreenSample> {
        match self {
            RunningLink::Service { http, about } => {
                let sample: Sample = http.get("/v1/adapters")?;
                let scenario: Json = http.get("/v1/scenario")?;
                Ok(ScreenSample::of_service(about, &sample, &scenario))
            }
            RunningLink::Link { client, before } => {
                let mut report: LinksReport = client.must("show", json!({}))?;
                let text: ScenarioAnswer = client.must("scenario", json!({}))?;
                let scenario: Json =
                    toml::from_str(&text.toml).context("the link's scenario cannot be read")?;
                let now = report.clone();
                if let Some(before) = before {
                    add_rates(&mut report, before);
                }
                *before = Some(Box::new(now));
                let about = format!(
                    "falaj {} {} (pid {})",
                    client.hello.command, client.hello.about, client.hello.pid
                );
                Ok(ScreenSample::of_link(&about, &report, &scenario))
            }
        }
    }

    /// Pauses an adapter, or resumes it.
    pub(super) fn pause(&mut self, adapter: &str, paused: bool) -> Result<(), String> {
        let RunningLink::Service { http, .. } = self else {
            return Err("only adapters of a service can be paused".into());
        };
        let path = format!("/v1/adapters/{}/paused", adapter.replace('/', "%2F"));
        answered(http.ask(Method::PUT, &path, paused.to_string()))
    }

    /// Applies a change. The error is a message to the user.
    pub(super) fn change(&mut self, wanted: &WantedChange) -> Result<(), String> {
        match self {
            RunningLink::Service { http, .. } => {
                let adapter = wanted.adapter.as_deref().unwrap_or(&wanted.flow);
                let value = wanted.value.as_deref().map_or(Json::Null, value);
                let path = format!("/v1/adapters/{}", adapter.replace('/', "%2F"));
                answered(http.ask(Method::PATCH, &path, json!({ wanted.key: value }).to_string()))
            }
            RunningLink::Link { client, .. } => {
                let place = format!(
                    "link.{}.flow.{}",
                    json!(wanted.link),
                    wanted.flow.replace('/', ".flow.")
                );
                let set = vec![format!(
                    "{place}.{}={}",
                    wanted.key,
                    wanted.value.as_deref().unwrap_or_default()
                )];
                let request = json!(SetRequest { set, ..SetRequest::default() });
                match client
                    .ask::<SetAnswer>("set", request)
                    .map_err(|error| format!("{error:#}"))?
                {
                    Ok(_) => Ok(()),
                    Err(Refusal { what, remarks }) => {
                        let said = |remark: &Remark| (remark.title.clone(), remark.help.clone());
                        let remarks: Vec<_> = remarks.iter().map(said).collect();
                        Err(refused(
                            &what,
                            remarks.iter().map(|(title, help)| (title.as_str(), &help[..])),
                        ))
                    }
                }
            }
        }
    }
}

/// Converts the service's answer to a change into a result.
fn answered(asked: Result<(u16, Bytes)>) -> Result<(), String> {
    let (status, body) = asked.map_err(|error| format!("{error:#}"))?;
    if status == 200 {
        return Ok(());
    }
    let Problem { what, remarks } = serde_json::from_slice(&body).unwrap_or_else(|_| Problem {
        what: format!("the service answers {status}"),
        remarks: Vec::new(),
    });
    Err(refused(&what, remarks.iter().map(|remark| (remark.title.as_str(), &remark.help[..]))))
}

/// Returns a number as a JSON number, and anything else as a string.
fn value(text: &str) -> Json {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

fn refused<'a>(what: &str, remarks: impl Iterator<Item = (&'a str, &'a [String])>) -> String {
    let mut all = vec![what.to_owned()];
    for (title, help) in remarks {
        all.push(format!("{title}. {}", help.join(" ")));
    }
    all.join(": ")
}
