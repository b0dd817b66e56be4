//! One session: an agent, its log, and who hears of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sabir_core::event::{Cause, Outcome};
use sabir_core::export::Options;
use sabir_protocol::{Code, Order, Refusal, Taken};
use sabir_store::Home;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use crate::adapter::{Adapter, Context, Done, Input, Work};
use crate::artifact::{Files, Found, Porter};
use crate::courier::{self, Courier, Ended, Names, Status};
use crate::deliver;
use crate::hub::Hub;
use crate::log::Log;
use crate::mend;
use crate::orders::{Effect, Orders};
use crate::outbox::{LastRun, Outbox, Place, Repair};
use crate::sink::Sink;
use crate::{Failure, Redactor, SessionId};

/// How often the log has a sign of life while an agent works.
const HEARTBEAT: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_secs(1);
/// So many orders wait at most; the hub keeps the others.
const ORDERS: usize = 64;

/// What to do about a run that an earlier shell did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterCrash {
    /// Tell that it was broken off.
    #[default]
    Report,
    /// Take up the conversation with the same prompt.
    Resume,
    /// Begin again with the same prompt.
    Again,
}

/// Everything that is decided before a shell begins.
#[derive(Debug)]
pub struct Config {
    /// The session.
    pub session: SessionId,
    /// Where the log is kept.
    pub home: Home,
    /// Where it is delivered.
    pub hub: Option<Hub>,
    /// Where it is kept too.
    pub sink: Option<Sink>,
    /// The files that it leaves.
    pub files: Option<Files>,
    /// What is taken out of it.
    pub redactor: Arc<Redactor>,
    /// What messages tell of the session.
    pub options: Options,
    /// The first prompt.
    pub prompt: Option<String>,
    /// What to do about a run that was broken off.
    pub after_crash: AfterCrash,
    /// How long to wait for a further prompt; `None` for ever.
    pub wait: Option<Duration>,
    /// How long to wait at the end for what is not acknowledged.
    pub flush: Duration,
    /// Told how delivery goes.
    pub status: watch::Sender<Status>,
}

/// What became of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The last run, if there was one.
    pub done: Option<Done>,
    /// The run was one of an earlier shell; this one delivered the rest.
    pub earlier: bool,
    /// What of the log was damaged at the beginning, and was repaired.
    pub repair: Repair,
    /// The number of the last message.
    pub last: u64,
    /// How many messages the hub has not acknowledged.
    pub unsent: u64,
    /// Why it takes no more.
    pub refused: Option<Refusal>,
    /// What went wrong with this machine's disk.
    pub failure: Option<Failure>,
    /// Why the sink does not have all of it.
    pub sink: Option<Failure>,
    /// The artifacts that could not be brought.
    pub artifacts: Vec<String>,
}

/// Runs a session to its end. Each thing that comes from `stop` asks for the end; the second one asks for it at once.
pub async fn run(config: Config, adapter: &mut dyn Adapter, stop: mpsc::Receiver<()>) -> Result<Report, Failure> {
    let names =
        Names { agent: Some(adapter.name().to_owned()), takes: adapter.takes().iter().map(|kind| (*kind).to_owned()).collect() };
    let outbox = Arc::new(open(&config, &names).await?);
    let log = Log::new(Arc::clone(&outbox), Arc::clone(&config.redactor), config.options.clone());
    let found = outbox.found().clone();
    let (to_orders, orders) = mpsc::channel(ORDERS);
    let (taken, from_taken) = mpsc::channel(ORDERS);
    let (dealt_with, from_dealt_with) = watch::channel(found.orders);
    let (finish, from_finish) = watch::channel(None);
    let courier = config.hub.clone().map(|hub| {
        let courier = Courier {
            hub,
            outbox: Arc::clone(&outbox),
            names,
            orders: to_orders,
            taken: from_taken,
            dealt_with: from_dealt_with,
            status: config.status.clone(),
            finish: from_finish,
            return_after: deliver::RETURN,
        };
        tokio::spawn(courier.run())
    });
    let sink = config.sink.clone().map(|sink| sink.beside(config.hub.clone()));
    let sinking = sink.map(|sink| tokio::spawn(sink.run(Arc::clone(&outbox), finish.subscribe())));
    let (to_porter, files) = mpsc::unbounded_channel();
    let porter = Porter { hub: config.hub.clone(), sink: config.sink.clone(), files, finish: finish.subscribe() };
    let context = Context { session: config.session.clone(), log, found: found.clone(), busy: false };
    let mut session = Session {
        context,
        adapter,
        stop,
        orders,
        taken,
        dealt_with,
        book: Orders::after(found.orders),
        work: None,
        courier,
        ended: None,
        sinking,
        sunk: None,
        files: config.files.clone(),
        to_porter: Some(to_porter),
        porter: tokio::spawn(porter.run()),
        report: Report { repair: outbox.repair().clone(), ..Report::default() },
        status: config.status.clone(),
        stops: 0,
    };
    session.adapter.on_init(&session.context)?;
    if found.run.is_some() && !found.delivered {
        // An earlier shell told of them, and may not have brought them.
        session.artifacts(false).await;
    }
    session.begin(&config, found.run.as_ref());
    session.go_on(config.wait).await?;
    session.adapter.on_shutdown(&session.context);
    session.finish(config.flush, &finish).await
}

/// The log of the session: that of this machine, or a new one where the hub says that it begins.
async fn open(config: &Config, names: &Names) -> Result<Outbox, Failure> {
    if let Some(outbox) = Outbox::open(&config.home, &config.session)? {
        return Ok(outbox);
    }
    let writer = Outbox::new_writer();
    let at_hub = match &config.hub {
        Some(hub) => courier::place(hub, &config.session, &writer, names).await.map_err(|refusal| refused(&refusal))?,
        None => None,
    };
    let in_sink = match &config.sink {
        Some(sink) => sink.place().await?,
        None => None,
    };
    let places: Vec<Place> = at_hub.into_iter().chain(in_sink).collect();
    // After everything that anybody has heard.
    let place = Place {
        epoch: places.iter().map(|place| place.epoch).max().unwrap_or(Place::FIRST.epoch),
        after: places.iter().map(|place| place.after).max().unwrap_or(Place::FIRST.after),
    };
    Outbox::create(&config.home, &config.session, writer, place)
}

/// A refusal as a failure, with what to do about it.
pub fn refused(refusal: &Refusal) -> Failure {
    let hint = match refusal.code {
        Code::Unauthorized => "the token is not known to the hub, was revoked, or has run out",
        Code::Forbidden => "the token is for something else; one of the scope runner:SESSION is needed",
        Code::NotFound => "there is no hub at this address",
        Code::Fenced => "somebody else runs this session now; the log stays on this machine",
        Code::Conflict => "the hub has another log of this session; the log stays on this machine",
        Code::Version => "one of the two is too old for the other",
        _ => "the log stays on this machine",
    };
    Failure::delivery(format!("the hub takes no more: {}", refusal.message)).hint(hint)
}

struct Session<'a> {
    context: Context,
    adapter: &'a mut dyn Adapter,
    stop: mpsc::Receiver<()>,
    orders: mpsc::Receiver<Order>,
    taken: mpsc::Sender<Taken>,
    dealt_with: watch::Sender<u64>,
    book: Orders,
    work: Option<Work>,
    courier: Option<JoinHandle<Ended>>,
    /// How delivery ended, once it has.
    ended: Option<Ended>,
    sinking: Option<JoinHandle<Ended>>,
    /// The same for the sink.
    sunk: Option<Ended>,
    files: Option<Files>,
    /// Closed at the end.
    to_porter: Option<mpsc::UnboundedSender<Found>>,
    porter: JoinHandle<Vec<String>>,
    report: Report,
    status: watch::Sender<Status>,
    stops: u32,
}

impl Session<'_> {
    /// What is to be done at the beginning, in view of what an earlier shell left.
    fn begin(&mut self, config: &Config, run: Option<&LastRun>) {
        let log = self.context.log.clone();
        if let Some(run) = run.filter(|run| !run.whole) {
            mend::mend(&log, run);
        }
        let asked = config.prompt.as_deref();
        let is_same = |run: &LastRun| asked.is_none_or(|text| Some(log.redacted(text)) == run.prompt);
        let (prompt, new) = match run {
            Some(run) if run.is_broken_off() => {
                self.earlier(Outcome::Incomplete, None);
                match config.after_crash {
                    AfterCrash::Report => (None, true),
                    AfterCrash::Again => (asked.map(str::to_owned).or_else(|| run.prompt.clone()), true),
                    AfterCrash::Resume => (asked.map(str::to_owned).or_else(|| run.prompt.clone()), false),
                }
            }
            // The same once more, and not everybody had heard the end: it is the end that is wanted.
            Some(run) if !self.context.found.delivered && is_same(run) => {
                if let Some((outcome, cause)) = mend::outcome(run) {
                    self.earlier(outcome, cause);
                }
                (None, true)
            }
            _ => (config.prompt.clone(), true),
        };
        let Some(prompt) = prompt else { return };
        log.begin(Some(&prompt));
        match self.adapter.on_input(&self.context, Input::Prompt { text: &prompt, new }) {
            Ok(work) => self.work(work),
            Err(why) => {
                log.note(&format!("the prompt is not carried out: {}", why.0));
                let done = Done { outcome: Outcome::StartFailed, cause: Some(Cause::BadUsage), killed: false };
                self.report.done = Some(done);
            }
        }
    }

    fn earlier(&mut self, outcome: Outcome, cause: Option<Cause>) {
        self.report.done = Some(Done { outcome, cause, killed: false });
        self.report.earlier = true;
    }

    fn work(&mut self, work: Option<Work>) {
        self.context.busy = work.is_some();
        self.work = work;
    }

    /// Goes on until there is nothing to do and nothing to wait for.
    async fn go_on(&mut self, wait: Option<Duration>) -> Result<(), Failure> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sign_of_life = Instant::now();
        let mut idle_since = Instant::now();
        loop {
            let until = wait.map(|wait| idle_since + wait);
            if self.work.is_none() && (self.stops > 0 || until.is_some_and(|until| until <= Instant::now())) {
                return Ok(());
            }
            let is_idle = self.work.is_none();
            tokio::select! {
                done = working(&mut self.work) => {
                    self.context.log.end();
                    self.artifacts(true).await;
                    self.report.done = Some(done);
                    self.report.earlier = false;
                    self.work(None);
                    idle_since = Instant::now();
                }
                Some(order) = self.orders.recv() => {
                    self.order(&order)?;
                    idle_since = Instant::now();
                }
                stop = self.stop.recv(), if self.stops < 2 => {
                    // Who can't ask any more, need not.
                    self.stops += if stop.is_some() { 1 } else { 2 };
                    if !is_idle && stop.is_some() {
                        self.adapter.on_cancel(&self.context, None);
                    }
                }
                ended = delivering(&mut self.courier) => self.ended = Some(ended),
                ended = delivering(&mut self.sinking) => self.sunk = Some(ended),
                _ = ticks.tick() => {
                    self.adapter.on_tick(&self.context);
                    if !is_idle && sign_of_life.elapsed() >= HEARTBEAT {
                        self.context.log.heartbeat();
                        sign_of_life = Instant::now();
                    }
                }
                () = until_some(until), if is_idle => {}
            }
        }
    }

    /// Looks for files that the session leaves, and has them brought.
    async fn artifacts(&mut self, tell: bool) {
        let Some(files) = self.files.clone() else { return };
        let found = tokio::task::spawn_blocking(move || files.find()).await.unwrap_or_default();
        for found in found {
            if tell {
                self.context.log.artifact(&found.artifact);
            }
            if let Some(to_porter) = &self.to_porter {
                // It is there for as long as we are.
                let _ = to_porter.send(found);
            }
        }
    }

    fn order(&mut self, order: &Order) -> Result<(), Failure> {
        let (taken, effect) = self.book.take(order, &self.context, self.adapter)?;
        self.dealt_with.send_replace(self.book.dealt_with());
        // Where it finds no room, the hub asks again, and is answered then.
        let _ = self.taken.try_send(taken);
        match effect {
            Effect::Nothing => {}
            Effect::Work(work) => self.work(Some(work)),
            Effect::Cancel(reason) => self.adapter.on_cancel(&self.context, reason.as_deref()),
        }
        Ok(())
    }

    /// Waits until everybody has heard everything, at most so long.
    async fn finish(mut self, flush: Duration, finish: &watch::Sender<Option<Instant>>) -> Result<Report, Failure> {
        let outbox = Arc::clone(self.context.log.outbox());
        self.report.failure = outbox.sync().err();
        self.report.last = outbox.last();
        finish.send_replace(Some(Instant::now() + flush));
        while self.courier.is_some() || self.sinking.is_some() {
            tokio::select! {
                ended = delivering(&mut self.courier) => self.ended = Some(ended),
                ended = delivering(&mut self.sinking) => self.sunk = Some(ended),
                // Who asks again does not want to wait.
                stop = self.stop.recv(), if self.stops < 2 => {
                    self.stops += if stop.is_some() { 1 } else { 2 };
                    if stop.is_some() {
                        finish.send_replace(Some(Instant::now()));
                    }
                }
            }
        }
        self.to_porter = None;
        self.report.artifacts = (&mut self.porter).await.unwrap_or_default();
        self.report.sink = match self.sunk {
            None | Some(Ended::Delivered) => None,
            Some(Ended::Unsent(count)) => Some(Failure::delivery(not_in_sink(count))),
            Some(Ended::Refused(refusal)) => Some(Failure::delivery(format!("the sink takes no more: {refusal}"))),
            Some(Ended::Failed(failure)) => Some(failure),
        };
        let is_whole = self.report.failure.is_none() && self.report.sink.is_none() && self.report.artifacts.is_empty();
        match self.ended {
            None | Some(Ended::Delivered) if is_whole => outbox.delivered()?,
            None | Some(Ended::Delivered) => {}
            Some(Ended::Unsent(count)) => self.report.unsent = count,
            Some(Ended::Refused(refusal)) => {
                self.report.unsent = outbox.last().saturating_sub(self.status.borrow().acked);
                self.report.refused = Some(refusal);
            }
            Some(Ended::Failed(failure)) => self.report.failure = Some(failure),
        }
        Ok(self.report)
    }
}

/// What is not in the sink when the time to deliver is over.
fn not_in_sink(messages: u64) -> String {
    match messages {
        0 => "all messages are in the sink, but its messages.json is not complete".to_owned(),
        1 => "1 message is not in the sink".to_owned(),
        messages => format!("{messages} messages are not in the sink"),
    }
}

/// The end of the work, if there is any.
async fn working(work: &mut Option<Work>) -> Done {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

/// The end of delivery, if it goes on.
async fn delivering(courier: &mut Option<JoinHandle<Ended>>) -> Ended {
    let Some(handle) = courier else { return std::future::pending().await };
    let ended = handle.await;
    *courier = None;
    ended.unwrap_or_else(|error| Ended::Failed(Failure::delivery(format!("delivery broke off: {error}"))))
}

async fn until_some(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::not_in_sink;

    #[test]
    fn what_a_sink_lacks_is_told_as_it_is() {
        assert_eq!(not_in_sink(0), "all messages are in the sink, but its messages.json is not complete");
        assert_eq!(
            (not_in_sink(1).as_str(), not_in_sink(2).as_str()),
            ("1 message is not in the sink", "2 messages are not in the sink")
        );
    }
}
