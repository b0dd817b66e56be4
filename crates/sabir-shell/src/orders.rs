//! What people at the hub want of the session, and what becomes of it.
//!
//! An order is written to the log, and synced, before it is acted on. So it is not carried out a second time after a restart, and
//! everybody can read what became of it. The hub gives an order out until it hears that it was taken; one that was dealt with is
//! answered again, and that is all.

use sabir_protocol::envelope::notes;
use sabir_protocol::{Order, OrderKind, Taken};

use crate::adapter::{Adapter, Context, Input, Refused, Work};
use crate::{Failure, log::Log};

/// What follows from an order.
pub(crate) enum Effect {
    /// Nothing more.
    Nothing,
    /// There is work to do.
    Work(Work),
    /// What goes on shall end.
    Cancel(Option<String>),
}

/// The orders of one session.
#[derive(Debug, Default)]
pub struct Orders {
    dealt_with: u64,
    /// What the last ones were answered, in case they come again.
    answers: Vec<Taken>,
}

/// As many answers are remembered; who asks for older ones is told what is known for sure.
const REMEMBERED: usize = 64;

impl Orders {
    /// The orders after those that were dealt with.
    pub fn after(dealt_with: u64) -> Self {
        Self { dealt_with, answers: Vec::new() }
    }

    /// The number of the last order that was dealt with.
    pub fn dealt_with(&self) -> u64 {
        self.dealt_with
    }

    /// Deals with an order: decides, writes that down, and only then says what follows.
    pub(crate) fn take(
        &mut self,
        order: &Order,
        context: &Context,
        adapter: &mut dyn Adapter,
    ) -> Result<(Taken, Effect), Failure> {
        if order.order <= self.dealt_with {
            return Ok((self.again(order.order), Effect::Nothing));
        }
        let decision = decide(order, context, adapter);
        write(&context.log, order, decision.as_ref().err())?;
        self.dealt_with = order.order;
        let mut effect = Effect::Nothing;
        let mut refused = decision.as_ref().err().cloned();
        match decision {
            Ok(Decision::Input(input)) => {
                if matches!(input, Input::Prompt { .. }) && !context.busy {
                    // The log has the prompt already.
                    context.log.begin(None);
                }
                match adapter.on_input(context, input) {
                    Ok(Some(work)) => effect = Effect::Work(work),
                    Ok(None) => {}
                    // It changed its mind after it was asked.
                    Err(why) => refused = Some(why),
                }
            }
            Ok(Decision::Cancel(reason)) => effect = Effect::Cancel(reason.map(str::to_owned)),
            Err(_) => {}
        }
        let taken = Taken { order: order.order, accepted: refused.is_none(), reason: refused.map(|why| why.0) };
        self.answers.push(taken.clone());
        if self.answers.len() > REMEMBERED {
            self.answers.remove(0);
        }
        Ok((taken, effect))
    }

    fn again(&self, number: u64) -> Taken {
        let known = self.answers.iter().find(|taken| taken.order == number);
        // An earlier shell dealt with it; the log says how.
        known.cloned().unwrap_or(Taken { order: number, accepted: true, reason: None })
    }
}

enum Decision<'o> {
    Input(Input<'o>),
    Cancel(Option<&'o str>),
}

fn decide<'o>(order: &'o Order, context: &Context, adapter: &dyn Adapter) -> Result<Decision<'o>, Refused> {
    let refuse = |why: &str| Err(Refused(why.to_owned()));
    let input = match order.kind {
        OrderKind::Prompt => match &order.text {
            Some(text) => Input::Prompt { text, new: false },
            None => return refuse("the prompt has no text"),
        },
        OrderKind::Permission => match (&order.request_id, order.decision.as_deref()) {
            (Some(request_id), Some(decision @ ("allow" | "deny"))) => {
                Input::Permission { request_id, allow: decision == "allow" }
            }
            _ => return refuse("the answer names no question, or is neither allow nor deny"),
        },
        OrderKind::Cancel if context.busy => return Ok(Decision::Cancel(order.reason.as_deref())),
        OrderKind::Cancel => return refuse("nothing is going on"),
        OrderKind::Unknown => return refuse("this shell does not know what that means"),
    };
    adapter.accepts(context, input).map(|()| Decision::Input(input))
}

fn write(log: &Log, order: &Order, refused: Option<&Refused>) -> Result<(), Failure> {
    let text = match order.kind {
        OrderKind::Prompt => order.text.clone().unwrap_or_default(),
        OrderKind::Cancel => {
            format!("cancel{}", order.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default())
        }
        OrderKind::Permission => {
            let (decision, id) = (order.decision.as_deref().unwrap_or("?"), order.request_id.as_deref().unwrap_or("?"));
            format!("{decision} {id}")
        }
        OrderKind::Unknown => "an order of a kind that is not known".to_owned(),
    };
    log.order(&notes::Order {
        number: order.order,
        prompt: order.kind == OrderKind::Prompt,
        text: &text,
        by: order.by.as_deref(),
        refused: refused.map(|why| why.0.as_str()),
    })
}
