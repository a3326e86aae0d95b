//! A client of the API: one request at a time over its socket.

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Timeout of a request. A healthy service answers faster.
const PATIENCE: Duration = Duration::from_secs(10);

/// The API of a service.
pub(super) struct HttpClient {
    runtime: Runtime,
    path: PathBuf,
}

impl HttpClient {
    pub(super) fn new(path: &Path) -> Result<HttpClient> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context("no runtime")?;
        Ok(HttpClient { runtime, path: path.to_owned() })
    }

    /// Sends a GET request; returns the JSON.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let (status, body) = self.ask(Method::GET, path, String::new())?;
        if status != 200 {
            bail!("the service answers {status} to {path}");
        }
        serde_json::from_slice(&body)
            .context("the service's answer cannot be read; the service may be of another release")
    }

    /// Sends a request; returns status and body.
    pub(super) fn ask(&self, method: Method, path: &str, body: String) -> Result<(u16, Bytes)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "falaj")
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let asked = async {
            let stream = UnixStream::connect(&self.path)
                .await
                .context("no process listens at this socket")?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            let connection = tokio::spawn(connection);
            let answer = sender.send_request(request).await?;
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await?.to_bytes();
            drop(sender);
            connection.abort();
            Ok::<_, anyhow::Error>((status, body))
        };
        let answer = self.runtime.block_on(async { timeout(PATIENCE, asked).await });
        let gone = || format!("the service at {}", self.path.display());
        answer.context("it does not answer").and_then(|answer| answer).with_context(gone)
    }
}
