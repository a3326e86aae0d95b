//! The dashboard: a page that is embedded in the program and uses the API. Its source is `page/`;
//! the files here were built from it by `make page`, and the page's tests compare the two.

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io::IsTerminal;
use std::net::SocketAddr;

/// Path, content type and text of each file.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
];

/// The page loads nothing from other hosts, contacts no other host, and cannot be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors \
                      'none'";

pub(super) fn router() -> Router {
    let file = |router: Router,
                &(path, kind, text): &(&'static str, &'static str, &'static str)| {
        router.route(path, get(move || std::future::ready(answer(kind, text))))
    };
    FILES.iter().fold(Router::new(), file)
}

fn answer(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // The page differs from release to release.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

/// Prints the page's address. The token follows a `#`; browsers do not send that part of an
/// address. The token is printed only on a terminal, because otherwise standard error is often
/// stored in a file.
pub(super) fn tell(address: SocketAddr, encrypted: bool, token: Option<&[u8]>) {
    let token = token.filter(|_| std::io::stderr().is_terminal());
    let fragment = token.map_or_else(String::new, |token| format!("#token={}", escaped(token)));
    let scheme = if encrypted { "https" } else { "http" };
    note!("dashboard at {scheme}://{address}/{fragment}");
}

/// The token with percent-encoding, as in a query.
fn escaped(token: &[u8]) -> String {
    let one = |&byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    token.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_an_address() {
        assert_eq!(escaped(b"aZ9-_.~+/= "), "aZ9-_.%7E%2B%2F%3D%20");
    }

    #[test]
    fn all_that_the_page_names_is_there() {
        let (_, _, html) = FILES[0];
        let named: Vec<&str> =
            ["src=\"", "href=\""].iter().flat_map(|at| html.split(at).skip(1)).collect();
        let names: Vec<&str> = named.iter().filter_map(|text| text.split('"').next()).collect();
        let own: Vec<&&str> = names.iter().filter(|name| !name.starts_with("data:")).collect();
        assert_eq!(own.len(), 2, "{names:?}");
        for name in own {
            let path = name.trim_start_matches('.');
            assert!(FILES.iter().any(|(known, ..)| *known == path), "{name}");
        }
    }
}
