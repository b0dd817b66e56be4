//! Web UI: three files in the binary, served under names that contain their hash.
//!
//! ```text
//!   assets/index.html   at /                          not cached
//!   assets/app.js       at /assets/app-3f9c2a7d.js    cached forever
//!   assets/style.css    at /assets/style-51b0c4aa.css
//! ```
//!
//! `index.html` refers to the others as `/assets/app.js` and `/assets/style.css`; the names with hashes are inserted at startup,
//! so a build does not rename files. Browsers that accept zstd get compressed files.

use std::sync::OnceLock;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use sabir_core::fold::timeline::Item;
use serde::Serialize;

use crate::auth::token::sha256_hex;
use crate::sessions::SessionInfo;
use crate::store::SessionRecord;

const INDEX: &str = include_str!("../assets/index.html");
const SCRIPT: &str = include_str!("../assets/app.js");
const STYLE: &str = include_str!("../assets/style.css");

/// Content-Security-Policy: only the UI's own script and style, and requests to its own hub.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The names of assets contain their hash, so browsers may cache them forever.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Compression level of assets; higher levels take more time than they save.
const ZSTD_LEVEL: i32 = 6;

/// An asset of the web UI.
struct Asset {
    kind: &'static str,
    text: &'static str,
    /// The text as zstd, compressed on first use.
    compressed: OnceLock<Option<Vec<u8>>>,
}

static APP: Asset = Asset { kind: "text/javascript; charset=utf-8", text: SCRIPT, compressed: OnceLock::new() };
static STYLESHEET: Asset = Asset { kind: "text/css; charset=utf-8", text: STYLE, compressed: OnceLock::new() };

impl Asset {
    fn response(&'static self, request: &HeaderMap) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        match accepts_zstd(request).then(|| self.compressed()).flatten() {
            Some(compressed) => {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
                (headers, compressed).into_response()
            }
            None => (headers, self.text).into_response(),
        }
    }

    fn compressed(&'static self) -> Option<&'static [u8]> {
        self.compressed.get_or_init(|| zstd::bulk::compress(self.text.as_bytes(), ZSTD_LEVEL).ok()).as_deref()
    }
}

/// Returns whether `Accept-Encoding` has `zstd` without a weight.
fn accepts_zstd(request: &HeaderMap) -> bool {
    let values = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case("zstd"))
}

/// Routes of the web UI.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let (script, style) = (asset_path("app", "js", SCRIPT), asset_path("style", "css", STYLE));
    let index = INDEX.replace("/assets/app.js", &script).replace("/assets/style.css", &style);
    let index: &'static str = Box::leak(index.into_boxed_str());
    let policy = || [(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))];
    let mut routes = Router::new().route("/", get(async move || (policy(), Html(index))));
    for (path, asset) in [(script, &APP), (style, &STYLESHEET)] {
        routes = routes.route(&path, get(async move |request: HeaderMap| asset.response(&request)));
    }
    routes
}

fn asset_path(stem: &str, extension: &str, text: &str) -> String {
    format!("/assets/{stem}-{}.{extension}", &sha256_hex(text.as_bytes())[..8])
}

/// The web UI as a single HTML file that shows one session and works without a hub: script, style and session are embedded.
pub fn single_file(session: SessionRecord, items: &[Item]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Run<'a> {
        session: SessionInfo,
        items: &'a [Item],
    }
    // Data must not contain the end of its element.
    let run = serde_json::to_string(&Run { session: session.into(), items })?.replace('<', "\\u003c");
    // Neither must a string in the script.
    let script = SCRIPT.replace("</script", "<\\/script").replace("<!--", "<\\!--");
    let style = STYLE.replace("</style", "<\\/style");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        csp_hash(&script),
        csp_hash(&style)
    );
    let policy = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    let style = format!("<style>{style}</style>");
    let data = format!("<script type=\"application/json\" id=\"run\">{run}</script>");
    let script = format!("{data}\n<script type=\"module\">{script}</script>");
    let page = INDEX.replacen("<meta charset=\"utf-8\">", &format!("<meta charset=\"utf-8\">\n{policy}"), 1);
    let page = replace_element(&page, "<link", "/assets/style.css", ">", &style);
    Ok(replace_element(&page, "<script", "/assets/app.js", "</script>", &script))
}

/// Replaces the element that refers to a file. `begin` and `end` delimit the element.
fn replace_element(page: &str, begin: &str, file: &str, end: &str, replacement: &str) -> String {
    let element = page.find(file).and_then(|at| {
        let start = page[..at].rfind(begin)?;
        let end = at + page[at..].find(end)? + end.len();
        Some((start, end))
    });
    match element {
        Some((start, end)) => [&page[..start], replacement, &page[end..]].concat(),
        None => page.to_owned(),
    }
}

/// Hash source of an embedded element in a Content-Security-Policy.
fn csp_hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use sabir_core::fold::Overview;
    use sabir_core::fold::timeline::{Clip, Item, What};
    use sabir_core::time::Timestamp;

    use super::single_file;
    use crate::store::SessionRecord;

    #[test]
    fn single_file_escapes_the_content_of_the_session() {
        let now = Timestamp::EPOCH;
        let session = SessionRecord {
            id: "s</script><script>alert(1)</script>".parse().expect("an id"),
            last: 1,
            folded: 1,
            overview: Overview::default(),
            runner: None,
            accepts: Vec::new(),
            created: now,
            updated: now,
            damage: None,
        };
        let what = What::Prompt { text: Clip::of("<!--<script></SCRIPT>", 100) };
        let item = serde_json::json!({ "id": 0, "first": 1, "last": 1, "run": 1, "what": what });
        let item: Item = serde_json::from_value(item).expect("an item");
        let page = single_file(session, &[item]).expect("JSON");
        assert!(page.contains("\\u003c/script>\\u003cscript>alert(1)") && page.contains("\\u003c!--"), "{page}");
        // One for the data, and one for the script.
        assert_eq!(page.to_lowercase().matches("</script>").count(), 2);
        let policy = page.split_once("Content-Security-Policy").and_then(|(_, rest)| rest.split_once('>')).expect("a policy").0;
        assert!(policy.contains("script-src 'sha256-") && policy.contains("style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(!page.contains("/assets/") && page.contains("<style>") && page.contains("id=\"run\""));
    }
}
