//! Other layouts of the same stream: text around it, and white space inside its JSON.

/// Lines of a CI log, none of any agent.
pub(crate) fn noise(count: usize) -> String {
    let line = |number: usize| match number % 8 {
        0 => format!("[DEBUG] Watching for changes in setting files ({number})\n"),
        1 => format!("npm warn exec The following package was not found: x@{number}\n"),
        2 => format!("2026-11-19T21:25:{:02}.000Z ##[group]Run\n", number % 60),
        3 => format!("{{\"level\":\"info\",\"msg\":\"step {number}\"}}\n"),
        4 => "{ this is no JSON\n".to_owned(),
        5 => "[\n".to_owned(),
        6 => format!("[{number}/400] Building\n"),
        _ => "\n".to_owned(),
    };
    (0..count).map(line).collect()
}

/// The same JSON with other white space between its tokens: none, or each member on a line of its own.
pub(crate) fn respaced(json: &str, pretty: bool) -> String {
    let (mut out, mut depth, mut in_string, mut escaped) = (String::new(), 0, false, false);
    let line = |out: &mut String, depth: usize| {
        if pretty {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
    };
    for character in json.chars() {
        if in_string {
            out.push(character);
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                depth += 1;
                out.push(character);
                line(&mut out, depth);
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(character);
                line(&mut out, depth);
            }
            ':' => out.push_str(if pretty { ": " } else { ":" }),
            _ if character.is_ascii_whitespace() => {}
            _ => {
                in_string = character == '"';
                out.push(character);
            }
        }
    }
    out
}
