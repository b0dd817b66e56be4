//! What goes into a fixture is of no machine and no vendor, and still what the CLI printed.

use std::path::Path;

use sabir_lab::record::neutral;

fn cut(text: &str) -> String {
    neutral(text, Path::new("/tmp/lab.1/work"), Path::new("/tmp/lab.1/home"))
}

#[test]
fn paths_and_furniture_go_and_the_order_of_keys_stays() {
    let line =
        r#"{"type":"init","cwd":"/tmp/lab.1/work/a","tools":["Read",{"name":"]\"["}],"model":"m","agents":{"x":[1]},"n":1}"#;
    let wanted = r#"{"type":"init","cwd":"/home/user/project/a","tools":[],"model":"m","agents":{},"n":1}"#;
    assert_eq!(cut(line), wanted);
    assert_eq!(cut("a banner \"quoted\nnext\n"), "a banner \"quoted\nnext\n");
    assert_eq!(
        cut(r#"{"log":"/tmp/lab.1/home/x","slug":"-tmp-lab-1-work"}"#),
        r#"{"log":"/home/user/x","slug":"-home-user-project"}"#
    );
}

#[test]
fn a_tool_that_is_called_stays() {
    let line = r#"{"role":"tools","content":[{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}"#;
    assert_eq!(cut(line), line);
}

#[test]
fn long_texts_are_cut_and_stay_json() {
    for filler in ["x", "\\n", "\\u00e9", "\\\\", "é"] {
        for length in 390..410 {
            let line = format!(r#"{{"a":"{}{}","b":2}}"#, "y".repeat(length % 7), filler.repeat(length));
            let short = cut(&line);
            let value: serde_json::Value = serde_json::from_str(&short).unwrap_or_else(|error| panic!("{error}: {short}"));
            assert_eq!(value["b"], 2);
            assert!(short.len() <= 420, "{}", short.len());
        }
    }
}
