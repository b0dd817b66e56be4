//! As much of HTTP and of the frames of a WebSocket as it takes to see where one thing ends and the next begins.

use std::io::Read as _;
use std::net::TcpStream;

/// The connection is over, for whatever reason.
pub(super) struct Over;

pub(super) type Step<T> = Result<T, Over>;

impl From<std::io::Error> for Over {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

/// One end of a connection, and what was read from it.
pub(super) struct Side {
    pub(super) stream: TcpStream,
    pub(super) buffer: Vec<u8>,
}

/// A request or an answer.
pub(super) struct Whole {
    head: String,
    pub(super) bytes: Vec<u8>,
}

impl Whole {
    /// A word of the first line.
    pub(super) fn word(&self, number: usize) -> &str {
        self.head.lines().next().and_then(|line| line.split(' ').nth(number)).unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

impl Side {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    pub(super) fn twin(&self) -> Step<Self> {
        Ok(Self::new(self.stream.try_clone()?))
    }

    /// Reads more.
    pub(super) fn fill(&mut self) -> Step<()> {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece)? {
            0 => Err(Over),
            count => {
                self.buffer.extend_from_slice(&piece[..count]);
                Ok(())
            }
        }
    }

    fn take(&mut self, count: usize) -> Step<Vec<u8>> {
        while self.buffer.len() < count {
            self.fill()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    fn head(&mut self) -> Step<(String, Vec<u8>)> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let bytes = self.take(end + 4)?;
                return Ok((String::from_utf8_lossy(&bytes).into_owned(), bytes));
            }
            self.fill()?;
        }
    }

    pub(super) fn request(&mut self) -> Step<Whole> {
        let (head, mut bytes) = self.head()?;
        let length = header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        bytes.extend(self.take(length)?);
        Ok(Whole { head, bytes })
    }

    pub(super) fn answer(&mut self, is_head: bool) -> Step<Whole> {
        let (head, mut bytes) = self.head()?;
        let length = header(&head, "content-length").and_then(|length| length.parse::<usize>().ok());
        let status = head.split(' ').nth(1).unwrap_or_default();
        if is_head || status.starts_with('1') || matches!(status, "204" | "304") {
            return Ok(Whole { head, bytes });
        }
        match length {
            Some(length) => bytes.extend(self.take(length)?),
            None if header(&head, "transfer-encoding").is_some() => loop {
                let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") else {
                    self.fill()?;
                    continue;
                };
                let size = std::str::from_utf8(&self.buffer[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
                let size = size.ok_or(Over)?;
                bytes.extend(self.take(end + 2 + size + 2)?);
                if size == 0 {
                    break;
                }
            },
            None => {
                while self.fill().is_ok() {}
                bytes.append(&mut self.buffer);
            }
        }
        Ok(Whole { head, bytes })
    }

    /// A frame of a WebSocket as it is, and whether it is binary.
    pub(super) fn frame(&mut self) -> Step<(bool, Vec<u8>)> {
        while self.buffer.len() < 2 {
            self.fill()?;
        }
        let (first, second) = (self.buffer[0], self.buffer[1]);
        let (wide, short) = match second & 0x7f {
            126 => (2, 0),
            127 => (8, 0),
            length => (0, usize::from(length)),
        };
        while self.buffer.len() < 2 + wide {
            self.fill()?;
        }
        let long = self.buffer[2..2 + wide].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        let frame = self.take(2 + wide + mask + long.max(short))?;
        Ok((first & 0x0f == 2, frame))
    }
}
