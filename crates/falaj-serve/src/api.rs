//! The API over HTTP. Data on adapters comes from the last sample of the thread `watch`, without a
//! request to the link. Changes go through the handler of the control socket, which parses, checks
//! and admits them like any other change.

use super::connections::{AuthState, answer};
use super::model::{
    Adapter, Breach, Breaches, Bucket, ChangeResult, Delays, Disciplines, Flow, FlowHistory,
    Guarantee, HistoryStep, Problem, Quantiles, Remark, Sample, Service, TooLong, TooSlow, Total,
    Turn, Turns, Window,
};
use super::published::Published;
use super::secret::warn_of_readers;
use super::tls::Identity;
use super::{keys, metrics, page};
use anyhow::{Context, Result, ensure};
use axum::extract::{Extension, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Version, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use falaj_control::handler::{Handler, lock, set as set_now};
use falaj_control::protocol;
use falaj_control::protocol::{Refusal, SetAnswer, SetRequest};
use falaj_control::sockets;
use falaj_live::listening::{Transport, name_process};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Instant;
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::{Stream, StreamExt};
use tracing::{debug, info};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum number of changes in progress at once; others wait.
const CHANGES: usize = 4;
/// Minimum length of a token in bytes: shorter tokens can be guessed.
const TOKEN: usize = 16;

/// The shared state of all requests.
pub(super) struct App {
    handler: Arc<Mutex<Handler>>,
    published: Arc<Published>,
    service: Service,
    token: RwLock<Option<Vec<u8>>>,
}

impl App {
    pub(super) fn new(
        handler: Arc<Mutex<Handler>>,
        published: Arc<Published>,
        service: Service,
        token: Option<Vec<u8>>,
    ) -> Arc<App> {
        Arc::new(App { handler, published, service, token: RwLock::new(token) })
    }

    /// Replaces the token that requests must have.
    pub(super) fn set_token(&self, token: Vec<u8>) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }
}

/// Reads the token from a file.
pub(super) fn token(file: &std::path::Path) -> Result<Vec<u8>> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("--token-file {}", file.display()))?;
    warn_of_readers("--token-file", file);
    let token = text.trim().as_bytes().to_vec();
    ensure!(
        token.len() >= TOKEN,
        "--token-file {}: a token has {TOKEN} bytes at least",
        file.display()
    );
    Ok(token)
}

/// The sockets at which the API listens.
pub(super) struct Listeners {
    unix: UnixListener,
    path: PathBuf,
    tcp: Option<TcpListener>,
    /// The TLS identity for connections over TCP; `None` if they are not encrypted.
    identity: Option<Arc<Identity>>,
}

impl Listeners {
    /// The address over TCP, with the actual port.
    pub(super) fn tcp(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok())
    }
}

/// Opens the listening sockets; only this user can access the Unix socket.
pub(super) fn listen(
    path: &std::path::Path,
    tcp: Option<SocketAddr>,
    identity: Option<Arc<Identity>>,
) -> Result<Listeners> {
    // The TCP address comes first, because another process may have it: on failure, no Unix socket
    // has been created yet.
    let tcp = bind(tcp)?;
    let bound = sockets::bind(path);
    let unix = bound.with_context(|| format!("cannot listen at {}", path.display()))?;
    Ok(Listeners { unix, path: path.to_owned(), tcp, identity })
}

impl Listeners {
    /// Takes over the sockets of another process: its Unix socket, and its TCP listener if the
    /// listener has the required address.
    pub(super) fn of_others(
        unix: UnixListener,
        path: PathBuf,
        other: Option<TcpListener>,
        tcp: Option<SocketAddr>,
        identity: Option<Arc<Identity>>,
    ) -> Result<Listeners> {
        let is_it = |other: &TcpListener| {
            let at = other.local_addr().ok();
            // Port 0 stands for any port, so the present port is kept.
            tcp.zip(at).is_some_and(|(tcp, at)| tcp == at || tcp.port() == 0 && tcp.ip() == at.ip())
        };
        let tcp = match other.filter(is_it) {
            Some(other) => Some(other),
            None => bind(tcp)?,
        };
        Ok(Listeners { unix, path, tcp, identity })
    }

    /// Copies of the sockets.
    pub(super) fn copies(&self) -> Result<(UnixListener, Option<TcpListener>)> {
        Ok((self.unix.try_clone()?, self.tcp.as_ref().map(TcpListener::try_clone).transpose()?))
    }

    /// The path of the Unix socket.
    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }
}

/// Returns an error if another process has the TCP address.
pub(super) fn check_free(tcp: Option<SocketAddr>) -> Result<()> {
    bind(tcp).map(drop)
}

fn bind(tcp: Option<SocketAddr>) -> Result<Option<TcpListener>> {
    let bound = tcp
        .map(|address| {
            TcpListener::bind(address)
                .map_err(|error| name_process(error, address, &[Transport::Tcp]))
                .with_context(|| format!("--tcp {address}"))
        })
        .transpose()?;
    bound.as_ref().map_or(Ok(()), |tcp| tcp.set_nonblocking(true))?;
    Ok(bound)
}

/// The API's thread.
pub(super) struct Serving {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    path: PathBuf,
}

impl Serving {
    pub(super) fn begin(listeners: Listeners, app: Arc<App>) -> Result<Serving> {
        let Listeners { unix, path, tcp, identity } = listeners;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(CHANGES)
            .build()
            .context("no runtime for the API")?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = async move {
            let router = router(Arc::clone(&app)).merge(page::router());
            let router = router.layer(from_fn(require_host)).layer(from_fn(log_request));
            if let Ok(unix) = tokio::net::UnixListener::from_std(unix) {
                tokio::spawn(answer(unix, None, router, AuthState::authenticated));
            }
            if let Some(Ok(tcp)) = tcp.map(tokio::net::TcpListener::from_std) {
                let guarded = self::router(Arc::clone(&app)).layer(from_fn_with_state(app, guard));
                // The page itself has only public content; it asks for the token.
                let guarded = guarded.merge(page::router());
                let guarded = guarded.layer(from_fn(require_host)).layer(from_fn(log_request));
                tokio::spawn(answer(tcp, identity, guarded, AuthState::default));
            }
            let _ = stopped.await;
        };
        let work = move || {
            runtime.block_on(serve);
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("api".into()).spawn(work)?;
        Ok(Serving { stop, thread, path })
    }

    /// Ends the thread. The socket's file is removed, unless another process continues to use it
    /// (`stays`).
    pub(super) fn end(self, stays: bool) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
        if !stays {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Checks that requests over TCP have the token.
async fn guard(
    State(app): State<Arc<App>>,
    Extension(known): Extension<AuthState>,
    request: Request,
    next: Next,
) -> Response {
    let said = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let token = app.token.read().unwrap_or_else(PoisonError::into_inner).clone();
    let good = token.zip(said).is_some_and(|(token, said)| bool::from(token[..].ct_eq(said)));
    if good {
        known.mark_authenticated();
        return next.run(request).await;
    }
    let why =
        problem("send the header `Authorization: Bearer TOKEN`, with the contents of --token-file");
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], Json(why)).into_response()
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "falaj serve",
        description = "Virtual adapters with guarantees. Times are in nanoseconds, rates in bits \
                       per second."
    ),
    components(schemas(
        Adapter,
        Breach,
        Breaches,
        Bucket,
        Delays,
        Flow,
        FlowHistory,
        HistoryStep,
        ChangeResult,
        Problem,
        Guarantee,
        Quantiles,
        Remark,
        Sample,
        Service,
        TooLong,
        TooSlow,
        Total,
        Turn,
        Turns,
        Window
    ))
)]
struct Described;

fn router(app: Arc<App>) -> Router {
    let (router, described) = OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(service))
        .routes(routes!(adapters))
        .routes(routes!(adapter, add, change, remove))
        .routes(routes!(delays))
        .routes(routes!(history))
        .routes(routes!(pause))
        .routes(routes!(breaches))
        .routes(routes!(turns))
        .routes(routes!(events))
        .routes(routes!(scenario, replace))
        .routes(routes!(disciplines))
        .routes(routes!(openmetrics))
        .split_for_parts();
    let described = axum::routing::get(move || std::future::ready(Json(described.clone())));
    router.route("/v1/openapi.json", described).with_state(app)
}

/// A request of HTTP/1.1 must have exactly one `Host` header (RFC 9112, section 3.2).
async fn require_host(request: Request, next: Next) -> Response {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    if request.version() == Version::HTTP_11 && hosts != 1 {
        let why = format!(
            "the request has {hosts} headers `Host`, and HTTP/1.1 requires exactly \
                           one"
        );
        return unread(&why).into_response();
    }
    next.run(request).await
}

/// Logs the request and the status of the answer. The query part of the path is not logged, because
/// it may contain anything.
async fn log_request(request: Request, next: Next) -> Response {
    let (began, method, path) =
        (Instant::now(), request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    debug!(%method, path, status = response.status().as_u16(), took_us, "asked");
    response
}

fn problem(what: impl Into<String>) -> Problem {
    Problem { what: what.into(), remarks: Vec::new() }
}

/// An error response with its status.
struct ErrorResponse(StatusCode, Problem);

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

impl From<Refusal> for ErrorResponse {
    fn from(refusal: Refusal) -> ErrorResponse {
        let Refusal { what, remarks } = refusal;
        ErrorResponse(
            StatusCode::CONFLICT,
            Problem { what, remarks: remarks.into_iter().map(Remark::from).collect() },
        )
    }
}

impl From<protocol::Remark> for Remark {
    fn from(remark: protocol::Remark) -> Remark {
        let protocol::Remark { severity, title, help } = remark;
        Remark { severity, title, help }
    }
}

impl From<SetAnswer> for ChangeResult {
    fn from(made: SetAnswer) -> ChangeResult {
        let SetAnswer { changed, at_ns, dropped, remarks } = made;
        ChangeResult {
            changed,
            at_ns,
            dropped,
            remarks: remarks.into_iter().map(Remark::from).collect(),
        }
    }
}

/// A part of a request, as the parameter of a handler. If it cannot be parsed, the response is an
/// error in the usual form.
struct RequestBody<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for RequestBody<Json<T>> {
    type Rejection = ErrorResponse;
    async fn from_request(request: Request, state: &S) -> Result<Self, ErrorResponse> {
        Json::from_request(request, state)
            .await
            .map(RequestBody)
            .map_err(|why| unread_body(why.status(), &why.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for RequestBody<Query<T>> {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorResponse> {
        Query::from_request_parts(parts, state)
            .await
            .map(RequestBody)
            .map_err(|why| unread(&why.body_text()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestBody<Path<String>> {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorResponse> {
        Path::from_request_parts(parts, state)
            .await
            .map(RequestBody)
            .map_err(|why| unread(&why.body_text()))
    }
}

impl<S: Send + Sync> FromRequest<S> for RequestBody<String> {
    type Rejection = ErrorResponse;
    async fn from_request(request: Request, state: &S) -> Result<Self, ErrorResponse> {
        String::from_request(request, state)
            .await
            .map(RequestBody)
            .map_err(|why| unread_body(why.status(), &why.body_text()))
    }
}

fn unread(why: &str) -> ErrorResponse {
    ErrorResponse(StatusCode::BAD_REQUEST, problem(why))
}

/// The response to a body that cannot be parsed, or is too large.
fn unread_body(status: StatusCode, why: &str) -> ErrorResponse {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => ErrorResponse(status, problem(why)),
        _ => unread(why),
    }
}

/// Options of a change.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
struct ChangeOptions {
    /// Only check whether the change would be admitted.
    #[serde(default)]
    check: bool,
    /// Queued packets that no longer fit may be dropped.
    #[serde(default)]
    drop: bool,
}

/// The extent of the response.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
struct TurnLimit {
    /// Maximum number of turns in each direction, the newest ones; without this parameter, all
    /// stored turns.
    last: Option<usize>,
}

/// The service itself.
#[utoipa::path(get, path = "/v1", responses((status = 200, body = Service)))]
async fn service(State(app): State<Arc<App>>) -> Json<Service> {
    Json(app.service.clone())
}

/// All adapters: their guarantees, and their traffic in the last second and since the start.
#[utoipa::path(get, path = "/v1/adapters", responses((status = 200, body = Sample)))]
async fn adapters(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], app.published.json()).into_response()
}

/// One adapter; a `/` in its name is written `%2F`.
#[utoipa::path(get, path = "/v1/adapters/{name}", params(("name" = String, Path)),
    responses((status = 200, body = Adapter), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn adapter(
    State(app): State<Arc<App>>,
    RequestBody(Path(name)): RequestBody<Path<String>>,
) -> Result<Json<Adapter>, ErrorResponse> {
    let sample = app.published.sample();
    let found = sample.adapters.iter().find(|adapter| adapter.name == name);
    Ok(Json(found.ok_or_else(|| unknown(&sample, &name))?.clone()))
}

/// Adds an adapter. The body has the keys of a flow of the scenario, `adapter` among them.
#[utoipa::path(put, path = "/v1/adapters/{name}", params(("name" = String, Path), ChangeOptions),
    request_body = Object,
    responses((status = 200, body = ChangeResult), (status = 400, body = Problem),
        (status = 413, body = Problem),
        (status = 409, body = Problem)))]
async fn add(
    State(app): State<Arc<App>>,
    RequestBody(Path(name)): RequestBody<Path<String>>,
    RequestBody(Query(meant)): RequestBody<Query<ChangeOptions>>,
    RequestBody(Json(keys)): RequestBody<Json<Map<String, Value>>>,
) -> Result<Json<ChangeResult>, ErrorResponse> {
    let sample = app.published.sample();
    if sample.adapters.iter().any(|adapter| adapter.name == name) {
        return Err(ErrorResponse(
            StatusCode::CONFLICT,
            problem(format!("there is an adapter {name} already: PATCH changes it")),
        ));
    }
    let link = sample.adapters.first().map(|adapter| adapter.link.clone());
    let link = link.ok_or_else(|| {
        ErrorResponse(
            StatusCode::CONFLICT,
            problem("there is no other adapter, so its link is unknown"),
        )
    })?;
    set(app, sets(&link, &name, &keys)?, meant).await
}

/// Changes keys of an adapter's flow: weight, cap, queue, requirement; null removes a key.
#[utoipa::path(patch, path = "/v1/adapters/{name}", params(("name" = String, Path), ChangeOptions),
    request_body = Object,
    responses((status = 200, body = ChangeResult), (status = 400, body = Problem),
        (status = 413, body = Problem),
        (status = 404, body = Problem),
        (status = 409, body = Problem)))]
async fn change(
    State(app): State<Arc<App>>,
    RequestBody(Path(name)): RequestBody<Path<String>>,
    RequestBody(Query(meant)): RequestBody<Query<ChangeOptions>>,
    RequestBody(Json(keys)): RequestBody<Json<Map<String, Value>>>,
) -> Result<Json<ChangeResult>, ErrorResponse> {
    let link = link_of(&app, &name)?;
    set(app, sets(&link, &name, &keys)?, meant).await
}

/// Removes an adapter; its queued packets join another flow, or, with `drop`, are dropped.
#[utoipa::path(delete, path = "/v1/adapters/{name}", params(("name" = String, Path), ChangeOptions),
    responses((status = 200, body = ChangeResult), (status = 400, body = Problem),
        (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn remove(
    State(app): State<Arc<App>>,
    RequestBody(Path(name)): RequestBody<Path<String>>,
    RequestBody(Query(meant)): RequestBody<Query<ChangeOptions>>,
) -> Result<Json<ChangeResult>, ErrorResponse> {
    let link = link_of(&app, &name)?;
    let set_to_nothing = format!("{}=", place(&link, &name)?);
    set(app, vec![set_to_nothing], meant).await
}

/// Delays of an adapter's packets, by flow: the whole distribution since the start.
#[utoipa::path(get, path = "/v1/adapters/{name}/delays", params(("name" = String, Path)),
    responses((status = 200, body = Vec<Delays>), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn delays(
    State(app): State<Arc<App>>,
    RequestBody(Path(name)): RequestBody<Path<String>>,
) -> Result<Json<Vec<Delays>>, ErrorResponse> {
    let sample = app.published.sample();
    let found = sample.adapters.iter().find(|adapter| adapter.name == name);
    Ok(Json(app.published.delays(found.ok_or_else(|| unknown(&sample, &name))?)))
}

/// The last hour of an adapter, by flow, in steps of ten seconds; less if there are very many
/// flows.
#[utoipa::path(get, path = "/v1/adapters/{name}/history", params(("name" = String, Path)),
    responses((status = 200, body = Vec<FlowHistory>), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn history(
    State(app): State<Arc<App>>,
    RequestBody(Path(name)): RequestBody<Path<String>>,
) -> Result<Json<Vec<FlowHistory>>, ErrorResponse> {
    let sample = app.published.sample();
    let found = sample.adapters.iter().find(|adapter| adapter.name == name);
    Ok(Json(app.published.history(found.ok_or_else(|| unknown(&sample, &name))?)))
}

/// Pauses an adapter, or resumes it. While paused, it is not read from and gets no packets. A
/// restart of the service resumes it, unless the service keeps its state.
#[utoipa::path(put, path = "/v1/adapters/{name}/paused", params(("name" = String, Path)),
    request_body = bool,
    responses((status = 200, body = bool), (status = 400, body = Problem),
        (status = 413, body = Problem),
        (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn pause(
    State(app): State<Arc<App>>,
    RequestBody(Path(name)): RequestBody<Path<String>>,
    RequestBody(Json(paused)): RequestBody<Json<bool>>,
) -> Result<Json<bool>, ErrorResponse> {
    link_of(&app, &name)?;
    let pause = move || {
        lock(&app.handler).pause(&name, paused)?;
        app.published.pauses(&name, paused);
        Ok::<_, Refusal>(())
    };
    blocking(pause).await?.map_err(ErrorResponse::from)?;
    Ok(Json(paused))
}

/// Link occupancy: the last turns of flows in each direction, since the last change of flows.
#[utoipa::path(get, path = "/v1/turns", params(TurnLimit),
    responses((status = 200, body = Vec<Turns>), (status = 400, body = Problem),
        (status = 409, body = Problem)))]
async fn turns(
    State(app): State<Arc<App>>,
    RequestBody(Query(newest)): RequestBody<Query<TurnLimit>>,
) -> Result<Json<Vec<Turns>>, ErrorResponse> {
    let look = move || {
        let mut handler = lock(&app.handler);
        let turns = handler.turns()?;
        Ok::<_, Refusal>((handler.links(), turns))
    };
    let (links, turns) = blocking(look).await?.map_err(ErrorResponse::from)?;
    let ways =
        links.into_iter().flat_map(|link| ["up", "down"].map(|way| (link.clone(), way.to_owned())));
    let turn = |(flow, turn): (String, falaj_live::event_loop::LinkOccupancy)| {
        let (begin_ns, end_ns) = (turn.begin.0, turn.end.0);
        Turn { flow, begin_ns, end_ns, packets: turn.packets }
    };
    let of = |((link, way), turns): (_, Vec<_>)| {
        let beyond = newest.last.map_or(0, |last| turns.len().saturating_sub(last));
        Turns { link, way, turns: turns.into_iter().skip(beyond).map(turn).collect() }
    };
    Ok(Json(ways.zip(turns).map(of).collect()))
}

/// Guarantee violations: the last packets with too long a delay, and windows below the guaranteed
/// rate, in the order in which they were detected.
#[utoipa::path(get, path = "/v1/breaches", responses((status = 200, body = Vec<Breach>)))]
async fn breaches(State(app): State<Arc<App>>) -> Json<Vec<Breach>> {
    Json(app.published.breaches())
}

/// One sample each second, as server-sent events with the name `sample`.
#[utoipa::path(get, path = "/v1/events",
    responses((status = 200, content_type = "text/event-stream", body = Sample)))]
async fn events(State(app): State<Arc<App>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    // A client that was too slow for some samples gets the next sample.
    let samples = BroadcastStream::new(app.published.news.subscribe()).filter_map(Result::ok);
    let event =
        |sample: Arc<Sample>| Event::default().event("sample").json_data(&*sample).ok().map(Ok);
    Sse::new(samples.filter_map(event)).keep_alive(KeepAlive::default())
}

/// The present scenario as TOML; as JSON if the request accepts `application/json` alone.
#[utoipa::path(get, path = "/v1/scenario", responses((status = 200, content(
    (String = "application/toml"), (Object = "application/json")))))]
async fn scenario(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let text = blocking(move || lock(&app.handler).text().to_owned()).await?;
    if headers.get(header::ACCEPT).is_some_and(|accepted| accepted == "application/json") {
        // Parsing cannot fail: the running scenario was parsed before.
        let read: Map<String, Value> = ::toml::from_str(&text)
            .map_err(|error| ErrorResponse(StatusCode::CONFLICT, problem(error.to_string())))?;
        return Ok(Json(read).into_response());
    }
    Ok(([(header::CONTENT_TYPE, "application/toml")], text).into_response())
}

/// Replaces the whole scenario, given as TOML: all of it takes effect at one instant, or nothing
/// changes.
#[utoipa::path(put, path = "/v1/scenario", params(ChangeOptions),
    request_body(content = String, content_type = "application/toml"),
    responses((status = 200, body = ChangeResult), (status = 400, body = Problem),
        (status = 409, body = Problem), (status = 413, body = Problem)))]
async fn replace(
    State(app): State<Arc<App>>,
    RequestBody(Query(meant)): RequestBody<Query<ChangeOptions>>,
    RequestBody(text): RequestBody<String>,
) -> Result<Json<ChangeResult>, ErrorResponse> {
    let ChangeOptions { check, drop } = meant;
    submit(app, SetRequest { toml: Some(text), drop, check, ..SetRequest::default() }).await
}

/// The disciplines, with the keys of a flow that are meant to be edited.
#[utoipa::path(get, path = "/v1/disciplines", responses((status = 200, body = Disciplines)))]
async fn disciplines() -> Json<Disciplines> {
    Json(Disciplines::new())
}

/// The resolution of the metrics.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
struct Finely {
    /// A series for each flow of an adapter, instead of one for all of them.
    #[serde(default)]
    flows: bool,
}

/// The same numbers for Prometheus and compatible systems: per adapter and direction.
#[utoipa::path(get, path = "/metrics", params(Finely),
    responses((status = 200, content_type = "application/openmetrics-text", body = String),
        (status = 400, body = Problem)))]
async fn openmetrics(
    State(app): State<Arc<App>>,
    RequestBody(Query(Finely { flows })): RequestBody<Query<Finely>>,
) -> Result<Response, ErrorResponse> {
    // For thousands of adapters this takes a while; other requests are answered meanwhile.
    let text = blocking(move || app.published.openmetrics(flows)).await?;
    Ok(([(header::CONTENT_TYPE, metrics::TYPE)], text).into_response())
}

fn unknown(sample: &Sample, name: &str) -> ErrorResponse {
    let known: Vec<&str> =
        sample.adapters.iter().map(|adapter| adapter.name.as_str()).take(20).collect();
    ErrorResponse(
        StatusCode::NOT_FOUND,
        problem(format!("there is no adapter {name}; there are {}", known.join(", "))),
    )
}

fn link_of(app: &App, name: &str) -> Result<String, ErrorResponse> {
    let sample = app.published.sample();
    let found = sample.adapters.iter().find(|adapter| adapter.name == name);
    Ok(found.ok_or_else(|| unknown(&sample, name))?.link.clone())
}

/// The path of an adapter's flow in the scenario.
fn place(link: &str, name: &str) -> Result<String, ErrorResponse> {
    keys::place(link, name).map_err(|why| unread(&why))
}

/// The keys of an adapter as settings.
fn sets(link: &str, name: &str, keys: &Map<String, Value>) -> Result<Vec<String>, ErrorResponse> {
    keys::sets(link, name, keys).map_err(|why| unread(&why))
}

async fn set(
    app: Arc<App>,
    set: Vec<String>,
    meant: ChangeOptions,
) -> Result<Json<ChangeResult>, ErrorResponse> {
    let ChangeOptions { check, drop } = meant;
    submit(app, SetRequest { set, drop, check, ..SetRequest::default() }).await
}

async fn submit(app: Arc<App>, wanted: SetRequest) -> Result<Json<ChangeResult>, ErrorResponse> {
    let what =
        if wanted.toml.is_some() { "the whole scenario".to_owned() } else { wanted.set.join(" ") };
    let check = wanted.check;
    let change = move || {
        let made = set_now(&app.handler, &wanted)?;
        if !check {
            app.published.changed(lock(&app.handler).current());
        }
        Ok::<_, Refusal>(made)
    };
    let made = blocking(change).await?.map_err(ErrorResponse::from)?;
    if !check && !made.changed.is_empty() {
        let (at_ns, dropped) = (made.at_ns.unwrap_or(0), made.dropped);
        info!(what, at_ns, dropped, "changed by the API");
    }
    Ok(Json(made.into()))
}

/// Runs work that may take a while outside the event loop.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ErrorResponse> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| ErrorResponse(StatusCode::CONFLICT, problem("the service is shutting down")))
}
