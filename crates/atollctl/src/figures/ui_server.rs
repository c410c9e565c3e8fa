//! Serves the page of `atollctl ui` on the loopback interface: four documents, each at a URL that contains a
//! random token.
//!
//! UI-1: only this machine can connect, and a request without the token gets no document. Other users of this
//!       machine do not know the token.
//! UI-2: a request whose Host header names another host is refused. So a foreign web page whose host name was
//!       made to resolve to this machine (DNS rebinding) cannot read the answers.
//! UI-3: the browser runs only the script in this program (Content-Security-Policy), even if a name in the
//!       bucket contains a script.

use objstore::StoreError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// The longest head of a request, and the time within which the head must arrive. A request that exceeds one
/// of these limits gets no answer.
const REQUEST_BYTES_MAX: usize = 16 << 10;
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Data younger than this are shown again instead of read again, so that reloading the page often costs few
/// requests to the bucket.
const FRESH: Duration = Duration::from_secs(2);

const HEADERS: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nConnection: close\r\n";

type Read = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send>>;

/// Collects the data of the page, and keeps the last JSON that was made of them with its time.
pub(crate) struct Site {
    read: Box<dyn Fn() -> Read + Send + Sync>,
    last: Mutex<Option<(Instant, Vec<u8>)>>,
}

impl Site {
    /// `read` collects the data and returns them as the JSON that the page draws.
    pub(crate) fn new<F>(read: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<u8>, String>> + Send + 'static,
    {
        Self { read: Box::new(move || Box::pin(read())), last: Mutex::new(None) }
    }

    async fn json(&self) -> Result<Vec<u8>, String> {
        let mut last = self.last.lock().await;
        if let Some((_, json)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(json.clone());
        }
        let json = (self.read)().await?;
        *last = Some((Instant::now(), json.clone()));
        Ok(json)
    }
}

/// A listening socket, and the token that a request must carry.
pub(crate) struct Server {
    listener: TcpListener,
    port: u16,
    token: String,
}

impl Server {
    /// Listens on `port` of 127.0.0.1; 0: a free one. Errors: `Invalid` when it is taken.
    pub(crate) async fn bind(port: u16) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::Invalid(format!("listening on port {port} of 127.0.0.1: {error}"))
        };
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| StoreError::Bug(format!("no random bytes: {error}")))?;
        Ok(Self { listener, port, token: format!("{:032x}", u128::from_be_bytes(random)) })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Answers until the process ends. Errors: `Unavailable` when no more connections can be taken.
    pub(crate) async fn serve(self, site: Site) -> Result<bool, StoreError> {
        let gate = Arc::new((site, self.token, self.port));
        loop {
            let (stream, _) =
                self.listener.accept().await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            let gate = Arc::clone(&gate);
            tokio::spawn(async move {
                let (site, token, port) = gate.as_ref();
                // A browser that closes its connection early is no error.
                let _ = answer(stream, site, token, *port).await;
            });
        }
    }
}

async fn answer(mut stream: TcpStream, site: &Site, token: &str, port: u16) -> std::io::Result<()> {
    let Ok(Some(head)) = timeout(REQUEST_TIME, head_of(&mut stream)).await else { return Ok(()) };
    let (status, kind, body) = match asked(&head, token, port) {
        Ok("") => ("200 OK", "text/html; charset=utf-8", include_bytes!("page/index.html").to_vec()),
        Ok("page.css") => ("200 OK", "text/css; charset=utf-8", include_bytes!("page/page.css").to_vec()),
        Ok("page.js") => {
            ("200 OK", "text/javascript; charset=utf-8", include_bytes!("page/page.js").to_vec())
        }
        Ok("data.json") => match site.json().await {
            Ok(json) => ("200 OK", "application/json", json),
            Err(why) => ("502 Bad Gateway", "text/plain; charset=utf-8", why.into_bytes()),
        },
        Ok(_) => ("404 Not Found", "text/plain", b"there is nothing here".to_vec()),
        Err(status) => {
            (status, "text/plain", b"this is not the address that atollctl ui has printed".to_vec())
        }
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{HEADERS}\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}

/// Reads the head of a request. None: the request ended early, is too long, or is no UTF-8.
async fn head_of(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(piece.get(..read)?);
        if bytes.len() > REQUEST_BYTES_MAX {
            return None;
        }
    }
    String::from_utf8(bytes).ok()
}

/// The path that a request asks for, without the token in front of it; or the HTTP status with which the
/// request is refused.
fn asked<'a>(head: &'a str, token: &str, port: u16) -> Result<&'a str, &'static str> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let hosts: Vec<&str> = lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, value)| value.trim())
        .collect();
    let ours = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    match hosts.as_slice() {
        [host] if ours.iter().any(|ours| ours == host) => {}
        _ => return Err("421 Misdirected Request"),
    }
    if method != "GET" {
        return Err("405 Method Not Allowed");
    }
    let behind = path.strip_prefix('/').and_then(|path| path.strip_prefix(token));
    behind.and_then(|path| path.strip_prefix('/')).ok_or("403 Forbidden")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(first: &str, host: &str) -> String {
        format!("{first} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n")
    }

    #[test]
    fn only_who_knows_the_token_and_means_this_machine_gets_an_answer() {
        let ask = |first: &str, host: &str| asked(&head(first, host), "secret", 80).map(str::to_owned);
        assert_eq!(ask("GET /secret/", "127.0.0.1:80"), Ok(String::new()));
        assert_eq!(ask("GET /secret/data.json", "localhost:80"), Ok("data.json".to_owned()));
        for path in ["/", "/data.json", "/secre/", "/secret", "//secret/", "/secrets/", "secret/"] {
            assert_eq!(ask(&format!("GET {path}"), "127.0.0.1:80"), Err("403 Forbidden"), "{path}");
        }
        for host in ["evil.example:80", "127.0.0.1", "127.0.0.1:81", "127.0.0.1:80.evil.example", ""] {
            assert_eq!(ask("GET /secret/", host), Err("421 Misdirected Request"), "{host}");
        }
        assert_eq!(asked("GET /secret/ HTTP/1.1\r\n\r\n", "secret", 80), Err("421 Misdirected Request"));
        let twice = "GET /secret/ HTTP/1.1\r\nHost: localhost:80\r\nHost: evil.example\r\n\r\n";
        assert_eq!(asked(twice, "secret", 80), Err("421 Misdirected Request"));
        assert_eq!(ask("POST /secret/", "127.0.0.1:80"), Err("405 Method Not Allowed"));
    }

    #[tokio::test]
    async fn a_failure_is_an_answer_and_pages_come_with_a_policy() {
        let server = Server::bind(0).await.unwrap();
        let url = server.url();
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let site = Site::new(|| async { Err("the bucket is away".to_owned()) });
        let task = tokio::spawn(server.serve(site));
        for (document, expected) in
            [("", "<!doctype html>"), ("page.js", "drawSpace"), ("data.json", "the bucket is away")]
        {
            let mut stream = TcpStream::connect(host).await.unwrap();
            let request = head(&format!("GET /{path}{document}"), host);
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await.unwrap();
            assert!(reply.contains(expected) && reply.contains("default-src 'none'"), "{document}: {reply}");
        }
        task.abort();
    }
}
