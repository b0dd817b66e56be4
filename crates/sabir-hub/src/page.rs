//! The page: three files in the binary, under names that change when their bytes do.
//!
//! ```text
//!   assets/index.html   at /                          never kept by a browser
//!   assets/app.js       at /assets/app-3f9c2a7d.js    kept for ever
//!   assets/style.css    at /assets/style-51b0c4aa.css
//! ```
//!
//! `index.html` names the others as `/assets/app.js` and `/assets/style.css`; the names with the hashes are filled in at
//! the start, so a build changes no name. A browser that takes zstd gets them small.

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

use crate::api::Shape;
use crate::auth::token::hexadecimal;
use crate::store::SessionRecord;

const INDEX: &str = include_str!("../assets/index.html");
const SCRIPT: &str = include_str!("../assets/app.js");
const STYLE: &str = include_str!("../assets/style.css");

/// What the page may do: run its own script, and ask the hub that it is from.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// How hard they are made small: beyond this it takes longer than it saves.
const LEVEL: i32 = 6;

/// A file that the page is made of.
struct File {
    kind: &'static str,
    text: &'static str,
    /// The same as zstd, made when somebody asks for it first.
    small: OnceLock<Option<Vec<u8>>>,
}

static APP: File = File { kind: "text/javascript; charset=utf-8", text: SCRIPT, small: OnceLock::new() };
static LOOKS: File = File { kind: "text/css; charset=utf-8", text: STYLE, small: OnceLock::new() };

impl File {
    fn answer(&'static self, asked: &HeaderMap) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        match takes_zstd(asked).then(|| self.small()).flatten() {
            Some(small) => {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
                (headers, small).into_response()
            }
            None => (headers, self.text).into_response(),
        }
    }

    fn small(&'static self) -> Option<&'static [u8]> {
        self.small.get_or_init(|| zstd::bulk::compress(self.text.as_bytes(), LEVEL).ok()).as_deref()
    }
}

/// Whether that is among what a browser says that it takes. One with a weight is one that would rather not.
fn takes_zstd(asked: &HeaderMap) -> bool {
    let said = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case("zstd"))
}

/// The addresses of the page.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let (script, style) = (named("app", "js", SCRIPT), named("style", "css", STYLE));
    let index = INDEX.replace("/assets/app.js", &script).replace("/assets/style.css", &style);
    let index: &'static str = Box::leak(index.into_boxed_str());
    let policy = || [(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))];
    let mut routes = Router::new().route("/", get(async move || (policy(), Html(index))));
    for (path, file) in [(script, &APP), (style, &LOOKS)] {
        routes = routes.route(&path, get(async move |asked: HeaderMap| file.answer(&asked)));
    }
    routes
}

fn named(stem: &str, ending: &str, text: &str) -> String {
    let hash = hexadecimal(digest(&SHA256, text.as_bytes()).as_ref());
    format!("/assets/{stem}-{}.{ending}", &hash[..8])
}

/// One file that shows one session, and opens from disk without a hub: the page with its script and style inside, and the
/// session as data.
pub fn single_file(session: SessionRecord, items: &[Item]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Run<'a> {
        session: Shape,
        items: &'a [Item],
    }
    // What is data must not end the element that it stands in, whatever it says.
    let run = serde_json::to_string(&Run { session: Shape::alone(session), items })?.replace('<', "\\u003c");
    // Nor must a string in the script.
    let script = SCRIPT.replace("</script", "<\\/script").replace("<!--", "<\\!--");
    let style = STYLE.replace("</style", "<\\/style");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        source(&script),
        source(&style)
    );
    let policy = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    let style = format!("<style>{style}</style>");
    let data = format!("<script type=\"application/json\" id=\"run\">{run}</script>");
    let script = format!("{data}\n<script type=\"module\">{script}</script>");
    let page = INDEX.replacen("<meta charset=\"utf-8\">", &format!("<meta charset=\"utf-8\">\n{policy}"), 1);
    let page = in_place_of(&page, "<link", "/assets/style.css", ">", &style);
    Ok(in_place_of(&page, "<script", "/assets/app.js", "</script>", &script))
}

/// A text in which an element that names a file is another one.
fn in_place_of(page: &str, begins: &str, names: &str, ends: &str, other: &str) -> String {
    let found = page.find(names).and_then(|at| {
        let start = page[..at].rfind(begins)?;
        let end = at + page[at..].find(ends)? + ends.len();
        Some((start, end))
    });
    match found {
        Some((start, end)) => [&page[..start], other, &page[end..]].concat(),
        None => page.to_owned(),
    }
}

/// How a policy names what stands inside the page.
fn source(text: &str) -> String {
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
    fn what_a_session_says_never_leaves_its_element() {
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
        // The data, and the script itself.
        assert_eq!(page.to_lowercase().matches("</script>").count(), 2);
        let policy = page.split_once("Content-Security-Policy").and_then(|(_, rest)| rest.split_once('>')).expect("a policy").0;
        assert!(policy.contains("script-src 'sha256-") && policy.contains("style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(!page.contains("/assets/") && page.contains("<style>") && page.contains("id=\"run\""));
    }
}
