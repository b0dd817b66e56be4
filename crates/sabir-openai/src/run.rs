//! The loop: ask, tell, do what the model asks for, ask again.

use std::borrow::Cow;
use std::io::{self, Read as _, Write};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use sabir_core::event::{
    Cause, ErrorEvent, Exited, FileChange, Final, Outcome, Retry, Session, ToolEnd, ToolStart, TurnEnd, TurnStart,
};
use sabir_core::launch::Permission;
use serde_json::Value;

use crate::api::{Api, Call, Reply, ReplyEnd, Request};
use crate::commands::Commands;
use crate::confine::Confinement;
use crate::folder::Folder;
use crate::http::Endpoint;
use crate::out::Out;
use crate::tools::{self, Done, Place, Tool};
use crate::trouble::{Again, Broken, Trouble};
use crate::{Config, PUBLIC_ENDPOINT, sse};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The outcome, as the last line says it.
    pub outcome: Outcome,
    /// Why, when it ended badly.
    pub cause: Option<Cause>,
}

/// Runs the loop until the model has answered or something ends it. Everything that happens is told through `out`; an
/// error is returned only when that can't be written.
pub fn run(config: &Config, prompt: &str, commands: &Commands, out: &mut dyn Write) -> io::Result<Ending> {
    let started = Instant::now();
    let mut out = Out::new(out);
    let mut state = State::default();
    let ended = match turns(config, prompt, commands, &mut state, &mut out) {
        Ok(ended) => ended,
        Err(Broken::Out(error)) => {
            commands.end();
            return Err(error);
        }
        Err(Broken::Trouble(trouble)) => {
            let ending = Ending { outcome: trouble.outcome(), cause: Some(trouble.cause) };
            let message = Cow::Owned(trouble.message);
            out.tell(ErrorEvent::new(message).class(trouble.cause).fatal(true))?;
            ending
        }
    };
    commands.end();
    out.tell(
        Exited::new(ended.outcome)
            .cancelled(false)
            .cause(ended.cause)
            .stop_reason(state.stop_reason)
            .turns(state.turns)
            .duration_ms(millis(started.elapsed()))
            .api_duration_ms(millis(state.waited)),
    )?;
    Ok(ended)
}

/// What the last line tells beside the ending.
#[derive(Default)]
struct State {
    turns: u32,
    stop_reason: Option<String>,
    /// How long the endpoint was waited for.
    waited: Duration,
    /// Leave out what the endpoint does not know.
    plain: bool,
}

fn turns(config: &Config, prompt: &str, commands: &Commands, state: &mut State, out: &mut Out<'_>) -> Result<Ending, Broken> {
    let tools = tools::of(config.permission);
    let folder = Folder::open(&config.cwd)
        .map_err(|error| Trouble::fatal(Cause::BadUsage, format!("can't open the folder {}: {error}", config.cwd.display())))?;
    out.tell(
        Session::default()
            .model(Some(config.model.as_str()).filter(|model| !model.is_empty()))
            .cwd(folder.path().to_string_lossy())
            .agent_version(env!("CARGO_PKG_VERSION"))
            .permission_mode(config.permission.name())
            .tools(tools.iter().map(|tool| Cow::Borrowed(tool.name)).collect::<Vec<_>>()),
    )?;
    let endpoint = endpoint(config, prompt)?;
    let temporary = if config.permission == Permission::Full { commands.temporary().ok() } else { None };
    let confinement = Confinement::new(config.permission, folder.path(), temporary);
    if config.permission == Permission::Full && !confinement.is_kept() {
        out.activity("commands are not confined to the working folder: this system has no Landlock")?;
    }
    let changing = Mutex::new(());
    let place = Place {
        folder: &folder,
        commands,
        confinement: &confinement,
        permission: config.permission,
        command_time: config.command_time,
        changing: &changing,
    };
    let instructions = instructions(&folder, config.permission);
    let mut api = config.api.unwrap_or(Api::Responses);
    let mut items = vec![Api::prompt(prompt)];
    loop {
        if let Some(most) = config.max_turns.filter(|most| state.turns >= *most) {
            let message = format!("the limit of {most} turn{} is reached", if most == 1 { "" } else { "s" });
            return Err(Trouble::fatal(Cause::MaxTurns, message).into());
        }
        state.turns += 1;
        out.tell(TurnStart::new(state.turns))?;
        let asked = Asked { config, endpoint: &endpoint, instructions: &instructions, items: &items, tools: &tools };
        let waiting = Instant::now();
        let reply = answer(&asked, &mut api, state, out);
        state.waited += waiting.elapsed();
        let reply = reply?;
        state.stop_reason.clone_from(&reply.stop_reason);
        if let Some(usage) = reply.usage {
            out.tell(usage.event(reply.model.as_deref().unwrap_or(&config.model)))?;
        }
        let results = carry_out(&reply.calls, &place, out)?;
        out.tell(TurnEnd::new(state.turns).stop_reason(reply.stop_reason.as_deref()))?;
        if reply.end == ReplyEnd::Refused {
            return Err(Trouble::fatal(Cause::Refusal, "the model refused to answer").into());
        }
        if reply.calls.is_empty() {
            return finished(reply, out);
        }
        items.extend(reply.items);
        items.extend(reply.calls.iter().zip(&results).map(|(call, output)| api.result(call, output)));
    }
}

/// The endpoint, or what is missing to speak to it.
fn endpoint(config: &Config, prompt: &str) -> Result<Endpoint, Trouble> {
    if config.model.trim().is_empty() {
        return Err(Trouble::fatal(Cause::BadUsage, "no model is named: give --model or set OPENAI_MODEL"));
    }
    if prompt.trim().is_empty() {
        return Err(Trouble::fatal(Cause::BadUsage, "the prompt is empty"));
    }
    if config.key.is_none() && config.base_url.trim_end_matches('/') == PUBLIC_ENDPOINT {
        return Err(Trouble::fatal(Cause::Auth, "no key: set OPENAI_API_KEY, or OPENAI_BASE_URL to an endpoint that needs none"));
    }
    Endpoint::new(config)
}

/// The last message is the answer, whole or cut off at a limit.
fn finished(reply: Reply, out: &mut Out<'_>) -> Result<Ending, Broken> {
    if !reply.text.is_empty() {
        out.tell(Final::new(reply.text))?;
    }
    let outcome = if reply.end == ReplyEnd::Length { Outcome::Limited } else { Outcome::Completed };
    Ok(Ending { outcome, cause: None })
}

/// What a turn asks.
struct Asked<'a> {
    config: &'a Config,
    endpoint: &'a Endpoint,
    instructions: &'a str,
    items: &'a [Value],
    tools: &'a [&'static Tool],
}

/// Asks until there is an answer, or until asking is in vain.
fn answer(asked: &Asked<'_>, api: &mut Api, state: &mut State, out: &mut Out<'_>) -> Result<Reply, Broken> {
    let config = asked.config;
    let mut attempt = 1;
    loop {
        let trouble = match ask(asked, *api, state.plain, out) {
            Ok(reply) => return Ok(reply),
            Err(Broken::Out(error)) => return Err(Broken::Out(error)),
            Err(Broken::Trouble(trouble)) => trouble,
        };
        let wait = match trouble.again {
            Again::OtherApi if *api == Api::Responses && config.api.is_none() && asked.items.len() == 1 => {
                *api = Api::Chat;
                out.activity("the endpoint has no /responses: using /chat/completions")?;
                continue;
            }
            Again::Plainer if !state.plain => {
                state.plain = true;
                continue;
            }
            Again::Later(wait) if attempt < config.attempts => wait.unwrap_or_else(|| back_off(config.back_off, attempt)),
            _ => return Err(trouble.into()),
        };
        if wait > config.longest_wait {
            let message = format!("{} (the endpoint asks for a wait of {} s)", trouble.message, wait.as_secs());
            return Err(Trouble { message, ..trouble }.into());
        }
        out.tell(Retry::new(attempt, trouble.message).max_attempts(config.attempts).delay_ms(millis(wait)))?;
        thread::sleep(wait);
        attempt += 1;
    }
}

/// Twice the wait of the attempt before, up to half a minute.
fn back_off(first: Duration, attempt: u32) -> Duration {
    first.saturating_mul(1 << (attempt - 1).min(16)).min(Duration::from_secs(30))
}

/// Makes one request and tells its answer while it comes.
fn ask(asked: &Asked<'_>, api: Api, plain: bool, out: &mut Out<'_>) -> Result<Reply, Broken> {
    let Asked { config, endpoint, instructions, items, tools } = *asked;
    let body = api.body(&Request { model: &config.model, instructions, items, tools, plain });
    let mut answer = endpoint.post(api.path(), &body)?;
    let mut stream = api.stream();
    let read = if answer.whole {
        let mut text = String::new();
        match answer.body.read_to_string(&mut text) {
            Ok(_) => stream.whole(&text, out),
            Err(error) => Err(Trouble::network(format!("the answer was cut: {error}")).into()),
        }
    } else {
        sse::read(answer.body, |data| stream.event(data, out))
    };
    let usage = stream.usage();
    let whole = match read {
        Ok(()) => stream.finish(),
        Err(Broken::Out(error)) => return Err(Broken::Out(error)),
        // What breaks behind a whole answer does it no harm.
        Err(Broken::Trouble(trouble)) => stream.finish().map_err(|_| trouble),
    };
    whole.map_err(|trouble| {
        // The tokens of an answer that broke off are used all the same.
        let told = usage.map_or(Ok(()), |usage| out.tell(usage.event(&config.model)));
        told.map_or_else(Broken::Out, |()| Broken::Trouble(trouble))
    })
}

/// Runs the calls of one answer beside each other and tells of each when it ends. Gives what each gave back, in the order
/// of the calls.
fn carry_out(calls: &[Call], place: &Place<'_>, out: &mut Out<'_>) -> io::Result<Vec<String>> {
    for call in calls {
        out.tell(
            ToolStart::of_kind(tools::kind(&call.name), &call.id, &call.name).input(&call.arguments).title(tools::title(call)),
        )?;
    }
    let mut outputs = vec![String::new(); calls.len()];
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        for (index, call) in calls.iter().enumerate() {
            let send = sender.clone();
            let work = move || drop(send.send((index, tools::call(place, call))));
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, work) {
                let done = Done::failed(format!("the tool can't be run: {error}"));
                let _ = sender.send((index, (done, Duration::ZERO)));
            }
        }
        drop(sender);
        for (index, (done, took)) in ended {
            tell_end(&calls[index], &done, took, out).inspect_err(|_| place.commands.end())?;
            outputs[index] = if done.output.is_empty() { "(no output)".to_owned() } else { done.output };
        }
        Ok(outputs)
    })
}

fn tell_end(call: &Call, done: &Done, took: Duration, out: &mut Out<'_>) -> io::Result<()> {
    let tool_call_id = Cow::Borrowed(call.id.as_str());
    if let Some(changed) = &done.changed {
        out.tell(
            FileChange::new(&changed.path, changed.change)
                .diff(changed.diff.text.clone())
                .added(changed.diff.added)
                .removed(changed.diff.removed)
                .tool_call_id(tool_call_id.clone()),
        )?;
    }
    out.tell(
        ToolEnd::new(tool_call_id, done.status).output(done.output.as_str()).exit_code(done.exit_code).duration_ms(millis(took)),
    )
}

/// What the model is told before anything else.
fn instructions(folder: &Folder, permission: Permission) -> String {
    let may = match permission {
        Permission::ReadOnly => "You may read files and list folders; you can change nothing, so describe changes instead.",
        Permission::Edit => "You may read and change files; you can run no commands.",
        Permission::Full => "You may read and change files and run commands, in that folder only.",
    };
    format!(
        "You are a careful programmer who works alone in the folder {} on the task that the user gives. {may} Nobody can answer \
         questions while you work: decide yourself, and say what you assumed. Look before you change: read the files that matter. \
         Change what the task needs and nothing else, in the style that you find. Check your work where you can. When you are \
         done, answer with a short account of what you did and found; if you could not do it, say so plainly.",
        folder.path().display()
    )
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
