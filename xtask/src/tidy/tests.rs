use super::pattern::Pattern;
use super::rules::{Layer, Reserved};
use super::source::Module;
use super::{broken_layers, broken_reservations};

/// The lines of a file `demo/a.rs` on which a rule that reserves that code is broken.
fn reserved(names: &'static [&'static str], text: &str) -> Vec<usize> {
    let rule = Reserved { names, inside: &["demo/"], except: &["demo/allowed"], why: "it is reserved" };
    assert_eq!(broken_reservations(&Module::parse("demo::allowed", text), &[rule]).len(), 0, "exceptions hold");
    let rule = Reserved { names, inside: &["demo/"], except: &[], why: "it is reserved" };
    broken_reservations(&Module::parse("demo::a", text), &[rule]).into_iter().map(|broken| broken.line).collect()
}

#[test]
fn reservations_hold_for_code_and_not_for_comments_texts_and_tests() {
    let text = r#"
        //! std::fs
        /// std::fs
        fn a() -> &'static str {
            // std::fs
            "https://std::fs"
        }
        #[cfg(test)]
        mod tests {
            use std::fs;
        }
        #[cfg(all(test, unix))]
        fn b() { std::fs::read("") }
        #[cfg(not(test))]
        fn c() { std::fs::read("") }
    "#;
    assert_eq!(reserved(&["std::fs"], text), [15]);
}

#[test]
fn reservations_hold_in_groups_macros_and_functions() {
    let text = r#"
        use std::{
            collections::BTreeMap,
            fs::{self, File as F},
        };
        fn a() {
            use std::{io, fs};
            format!("{}", std::fs::exists(""));
        }
    "#;
    assert_eq!(reserved(&["std::fs"], text), [4, 7, 8]);
    assert_eq!(reserved(&["Command::new"], "fn a() { process::Command::new(\"x\"); Commander::new() }"), [1]);
    assert_eq!(reserved(&["Box<RawValue>"], "struct A<'a>(Box<RawValue>);\nstruct B<'a>(&'a RawValue);"), [1]);
}

#[test]
fn patterns_of_literals_have_wildcards() {
    let text = "const A: [&str; 4] = [\n\"runs\",\n\"the runs\",\n\"0.seg\",\n\"seg\"];";
    assert_eq!(reserved(&["\"runs\""], text), [2]);
    assert_eq!(reserved(&["\"*.seg\""], text), [4]);
    assert_eq!(reserved(&["\"the*\""], text), [3]);
    assert_eq!(Pattern::new("env!(\"A\")).join(\"../*\"").text, "env!(\"A\")).join(\"../*\"");
    assert_eq!(reserved(&["env!(\"A\")).join(\"../*\""], "fn a() { Path::new(env!(\"A\")).join(\"../b\") }"), [1]);
}

#[test]
fn layers_separate_siblings_and_limit_what_they_see() {
    let layer = Layer { parent: "demo::agent", shared: &["text"], sees: &["event"] };
    let text = "
        mod text { use super::Agent; use crate::event::Event; }
        mod codex {
            use super::text;
            use crate::{event::Event, fold};
            mod wire { use super::super::gemini::Line; use super::Stream; }
        }
        mod gemini {
            use crate::agent as all;
            fn a(line: all::codex::Line, text: all::text::Text) -> all::Agent { crate::view::find() }
        }
        pub struct Agent { all: codex::Stream }
    ";
    let modules = Module::parse("demo::agent", text);
    let broken: Vec<(usize, String)> =
        broken_layers(&modules, &[layer]).into_iter().map(|broken| (broken.line, broken.what)).collect();
    let expected = [
        (5, "`codex` may not see `demo::fold`"),
        (6, "`codex` may not see its sibling `gemini`"),
        (10, "`gemini` may not see `demo::view`"),
        (10, "`gemini` may not see its sibling `codex`"),
    ];
    assert_eq!(broken, expected.map(|(line, what)| (line, what.to_owned())));
}
