//! Identity of responses in logs that write a response as several lines.
//!
//! The ids of Anthropic's API are unique: lines with one id are of one response, in whatever file they are. Gateways and
//! compatible CLIs number the responses of each session (`msg_0`, `msg_1`), give all of them one id, or give none. Such a
//! response is identified by the id, the time and the uuid of its last line, which copies of that line in a resumed or
//! forked session keep. Whether a line continues the response before it, is decided by what stands between them.
//!
//! Logs are read in two ways, and both decide by these rules.

use super::ledger::{id_of, id_with};

/// Ids with fewer bytes are not taken as unique: `msg_0`, `chatcmpl-12`, the milliseconds since 1970.
const UNIQUE: usize = 20;

/// What a line tells about the response that it is a part of.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResponseLine<'a> {
    /// The id of the response.
    pub message_id: Option<&'a [u8]>,
    /// The id of the request; it stands in for a missing id of the response.
    pub request_id: Option<&'a [u8]>,
    /// The id of the line; it stands in for both.
    pub uuid: Option<&'a [u8]>,
    /// When the line was written, in milliseconds since 1970.
    pub at: Option<i64>,
    /// Uncached input, cache reads and cache writes of the request.
    pub input: Option<[u64; 3]>,
}

/// The response that the next line of an agent may continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenResponse {
    /// Hash of the id that its lines share; 0 when there is none.
    pub name: u64,
    /// Hash of the id of its request; 0 when it is not known.
    pub request: u64,
    /// See [`Continued::id`].
    pub id: u64,
    /// Hash of its input; 0 when it is not known.
    pub input: u64,
    /// What was sent to the model after its last line.
    pub since: u64,
}

/// What is sent to a model between two of its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The result of a tool call. Calls may be run before the response is complete.
    ToolResult = 1,
    /// A prompt, which only follows complete responses.
    Prompt = 2,
}

/// To which response a line belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Continued {
    /// The id that the response had before this line: that of another response when this line begins one.
    pub was: u64,
    /// The id that it has with this line. Copies of a response have the same.
    pub id: u64,
    /// Whether the line begins a response.
    pub is_new: bool,
    /// Whether the id alone identifies the response.
    pub is_unique: bool,
}

/// Whether an id alone identifies a response, in whatever session.
pub fn is_unique(id: &[u8]) -> bool {
    id.len() >= UNIQUE
}

impl ResponseLine<'_> {
    /// Its first id.
    fn name(&self) -> Option<&[u8]> {
        [self.message_id, self.request_id, self.uuid].into_iter().flatten().find(|name| !name.is_empty())
    }

    /// The id of a response of which this is the last line. A line with no id, time or uuid is identified by `place`, a number
    /// that no other line of the session has.
    pub fn id(&self, place: impl FnOnce() -> u64) -> u64 {
        let name = self.name();
        let hash = name.map_or(0, id_of);
        match (self.at, self.uuid) {
            _ if name.is_some_and(is_unique) => hash,
            (None, None) => id_with(hash, [place()]),
            (at, uuid) => id_with(hash, [at.unwrap_or(0).cast_unsigned(), uuid.map_or(0, id_of)]),
        }
    }
}

impl OpenResponse {
    /// Decides whether a line continues this response, and makes it the one that the line belongs to. For `place` see
    /// [`ResponseLine::id`].
    pub fn next(&mut self, line: &ResponseLine<'_>, place: impl FnOnce() -> u64) -> Continued {
        let name = line.name();
        let (hash, id) = (name.map_or(0, id_of), line.id(place));
        if name.is_some_and(is_unique) {
            let is_new = hash != self.name;
            *self = Self { name: hash, id, ..Self::default() };
            return Continued { was: id, id, is_new, is_unique: true };
        }
        let request = line.request_id.filter(|id| !id.is_empty()).map_or(0, id_of);
        let input = line.input.map_or(0, |input| id_with(1, input));
        let differ = |known: u64, told: u64| known != 0 && told != 0 && known != told;
        let may_follow = match self.since {
            0 => true,
            since if since == Sent::ToolResult as u64 => self.input == input,
            _ => false,
        };
        let continues = hash != 0 && hash == self.name && !differ(self.request, request) && may_follow;
        let was = if continues { self.id } else { id };
        // The lines of a response repeat what they know, and some know less.
        let known = |known: u64, told: u64| if continues && known != 0 { known } else { told };
        *self = Self { name: hash, request: known(self.request, request), id, input: known(self.input, input), since: 0 };
        Continued { was, id, is_new: !continues, is_unique: false }
    }

    /// Whether nothing was sent to the model since its last line.
    pub fn is_last(&self) -> bool {
        self.since == 0
    }

    /// Notes what was sent to the model since the last line.
    pub fn sent(&mut self, what: Sent) {
        self.since |= what as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenResponse, ResponseLine, Sent};

    fn line(id: &str, at: i64) -> ResponseLine<'_> {
        let message_id = Some(id.as_bytes()).filter(|id| !id.is_empty());
        ResponseLine { message_id, at: Some(at), input: Some([at.cast_unsigned(), 0, 0]), ..ResponseLine::default() }
    }

    /// Whether each line begins a response.
    fn begun(lines: &[(ResponseLine<'_>, Option<Sent>)]) -> Vec<bool> {
        let mut open = OpenResponse::default();
        let mut begun = Vec::new();
        for (line, sent) in lines {
            begun.push(open.next(line, || 0).is_new);
            sent.iter().for_each(|sent| open.sent(*sent));
        }
        begun
    }

    #[test]
    fn a_unique_id_is_enough() {
        let id = "msg_01abcdefghijklmnopqrst";
        let lines = [(line(id, 1), Some(Sent::Prompt)), (line(id, 2), Some(Sent::ToolResult)), (line(id, 3), None)];
        assert_eq!(begun(&lines), [true, false, false]);
        let mut open = [OpenResponse::default(); 2];
        assert_eq!(open[0].next(&line(id, 1), || 0).id, open[1].next(&line(id, 9), || 0).id);
    }

    #[test]
    fn a_short_id_is_another_response_after_a_prompt_or_with_another_request() {
        assert_eq!(begun(&[(line("msg_0", 1), None), (line("msg_0", 2), None)]), [true, false]);
        assert_eq!(begun(&[(line("msg_0", 1), Some(Sent::Prompt)), (line("msg_0", 2), None)]), [true, true]);
        assert_eq!(begun(&[(line("msg_0", 1), None), (line("msg_1", 2), None), (line("msg_0", 3), None)]), [true; 3]);
        let of_request = |id: &'static str| ResponseLine { request_id: Some(id.as_bytes()), ..line("msg_0", 1) };
        assert_eq!(begun(&[(of_request("a"), None), (of_request("a"), None), (of_request("b"), None)]), [true, false, true]);
        // Some lines of a response may lack the id of its request.
        assert_eq!(begun(&[(of_request("a"), None), (line("msg_0", 1), None), (of_request("b"), None)]), [true, false, true]);
    }

    #[test]
    fn results_of_tools_may_come_between_the_lines_of_a_response() {
        let result = Some(Sent::ToolResult);
        let early = line("msg_0", 1);
        let late = ResponseLine { at: Some(2), ..early };
        assert_eq!(begun(&[(early, result), (late, None)]), [true, false]);
        assert_eq!(begun(&[(early, result), (line("msg_0", 2), None)]), [true, true], "another input");
    }

    #[test]
    fn without_an_id_each_line_is_a_response() {
        assert_eq!(begun(&[(line("", 1), None), (line("", 1), None)]), [true, true]);
        let (mut open, mut place) = (OpenResponse::default(), 0);
        let mut next = || {
            place += 1;
            open.next(&ResponseLine::default(), || place).id
        };
        assert_ne!(next(), next());
    }

    #[test]
    fn a_copy_has_the_same_id_and_the_same_name_elsewhere_another() {
        let id = |lines: &[ResponseLine<'_>]| {
            let mut open = OpenResponse::default();
            lines.iter().map(|line| open.next(line, || 0).id).next_back()
        };
        let lines = [line("msg_0", 1), line("msg_0", 2)];
        // A side question begins with a copy of the last line alone.
        assert_eq!(id(&lines), id(&lines[1..]));
        assert_ne!(id(&lines), id(&[line("msg_0", 1), line("msg_0", 3)]));
    }
}
