//! The wire form of the small messages between step daemons, `srun` and agents: a u32 big-endian length, then MessagePack
//! with field names.
//!
//! Synchronous readers and writers use [`read_frame`] and [`write_frame`]; event loops and tokio feed [`Decoder`] with
//! whatever arrived and send the bytes of [`encode`]. No sockets are opened here and no message is interpreted.
//! Invariant: a peer can never make us allocate more than [`MAX_FRAME_BYTES`]. Byte vectors travel as MessagePack `bin`, so
//! output costs its own size; readers also take the array form that other encoders write.

pub mod handshake;

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest body of a frame in bytes. Launches carry a script and an environment, so this is well above any output chunk.
pub const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// Size of output chunks that writers should not exceed, so that one busy task cannot hold up another's lines.
pub const OUTPUT_CHUNK_BYTES: usize = 32 * 1024;

const LENGTH_BYTES: usize = 4;

/// Why a frame could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection failed, or ended inside a frame.
    #[error("frame connection failed")]
    Io(#[from] io::Error),
    /// The announced length is over [`MAX_FRAME_BYTES`]: the peer speaks something else.
    #[error(
        "frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}: the peer does not speak this protocol"
    )]
    TooLong {
        /// Announced length.
        length: usize,
    },
    /// The message could not be written as MessagePack.
    #[error("message cannot be encoded")]
    Encode(#[from] rmp_serde::encode::Error),
    /// The body is not the expected message.
    #[error("frame does not hold the expected message")]
    Decode(#[from] rmp_serde::decode::Error),
}

/// A message as MessagePack with field names, without a length: the payload of an agent's stream and of spool files.
///
/// # Errors
/// [`FrameError::Encode`].
pub fn to_payload<T: Serialize + ?Sized>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut body = Vec::with_capacity(128);
    serialize_into(&mut body, message)?;
    Ok(body)
}

/// Reads what [`to_payload`] (or `rmp_serde::to_vec_named`) wrote.
///
/// # Errors
/// [`FrameError::Decode`].
pub fn from_payload<T: DeserializeOwned>(payload: &[u8]) -> Result<T, FrameError> {
    Ok(rmp_serde::from_slice(payload)?)
}

/// A whole frame, ready to be sent.
///
/// # Errors
/// [`FrameError::Encode`], or [`FrameError::TooLong`] when no reader would take it.
pub fn encode<T: Serialize + ?Sized>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut frame = Vec::with_capacity(LENGTH_BYTES + 128);
    frame.extend_from_slice(&[0; LENGTH_BYTES]);
    serialize_into(&mut frame, message)?;
    let length = frame.len() - LENGTH_BYTES;
    let announced = u32::try_from(length)
        .ok()
        .filter(|_| length <= MAX_FRAME_BYTES)
        .ok_or(FrameError::TooLong { length })?;
    frame[..LENGTH_BYTES].copy_from_slice(&announced.to_be_bytes());
    Ok(frame)
}

fn serialize_into<T: Serialize + ?Sized>(
    buffer: &mut Vec<u8>,
    message: &T,
) -> Result<(), FrameError> {
    let mut serializer = rmp_serde::Serializer::new(buffer)
        .with_struct_map()
        .with_bytes(rmp_serde::config::BytesMode::ForceIterables);
    message.serialize(&mut serializer)?;
    Ok(())
}

/// Writes one frame and flushes.
///
/// # Errors
/// As [`encode`], or the writer's.
pub fn write_frame<W: Write + ?Sized, T: Serialize + ?Sized>(
    writer: &mut W,
    message: &T,
) -> Result<(), FrameError> {
    writer.write_all(&encode(message)?)?;
    writer.flush()?;
    Ok(())
}

/// Reads one frame; `None` when the connection ended between two frames.
///
/// # Errors
/// The reader's, an end inside a frame, a length over the limit, or another message than expected.
pub fn read_frame<R: Read + ?Sized, T: DeserializeOwned>(
    reader: &mut R,
) -> Result<Option<T>, FrameError> {
    let mut length = [0; LENGTH_BYTES];
    let mut filled = 0;
    while filled < LENGTH_BYTES {
        match reader.read(&mut length[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let length = body_length(length)?;
    let mut body = Vec::new();
    reader.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some(rmp_serde::from_slice(&body)?))
}

fn body_length(bytes: [u8; LENGTH_BYTES]) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(bytes) as usize;
    if length > MAX_FRAME_BYTES {
        Err(FrameError::TooLong { length })
    } else {
        Ok(length)
    }
}

/// Cuts a stream of bytes that arrives in any pieces into messages.
///
/// ```
/// let frame = sluice_frames::encode(&7u32).unwrap();
/// let mut decoder = sluice_frames::Decoder::default();
/// decoder.push(&frame[..3]);
/// assert_eq!(decoder.next_frame::<u32>().unwrap(), None);
/// decoder.push(&frame[3..]);
/// assert_eq!(decoder.next_frame::<u32>().unwrap(), Some(7));
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// Adds bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, `None` when more bytes are needed.
    ///
    /// # Errors
    /// A length over the limit, or another message than expected; the stream is useless afterwards.
    pub fn next_frame<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Some(length) = rest.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let end = LENGTH_BYTES + body_length(*length)?;
        let Some(body) = rest.get(LENGTH_BYTES..end) else {
            return Ok(None);
        };
        let message = rmp_serde::from_slice(body)?;
        self.start += end;
        Ok(Some(message))
    }

    /// True when no part of a frame is waiting: the stream may end here.
    pub fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluice_model::launch::{SrunFrame, StepFrame};

    use super::*;

    /// Both ends of a step's connection must agree on the bytes: length, map with field names, `bin` for data.
    #[test]
    fn output_frame_has_the_documented_bytes() {
        let frame = encode(&SrunFrame::Input {
            task: None,
            data: b"a\xff".to_vec(),
        })
        .expect("encode");
        let mut expected = vec![0, 0, 0, 23];
        expected.extend_from_slice(b"\x81\xa5Input\x82\xa4task\xc0\xa4data\xc4\x02a\xff");
        assert_eq!(frame, expected);
    }

    /// An encoder that writes byte vectors as arrays (rmp's default) is understood too.
    #[test]
    fn array_form_of_bytes_is_read() {
        let message = StepFrame::Output {
            task: 3,
            is_stderr: true,
            data: vec![0, 200, 10],
        };
        let array_form = rmp_serde::to_vec_named(&message).expect("encode");
        assert_eq!(
            from_payload::<StepFrame>(&array_form).expect("decode"),
            message
        );
        assert_eq!(
            from_payload::<StepFrame>(&to_payload(&message).expect("encode")).expect("decode"),
            message
        );
    }

    /// A peer that is not ours must not make the daemon allocate gigabytes.
    #[test]
    fn oversized_length_is_refused() {
        let bytes = *b"GET / HTTP/1.1\r\n\r\n";
        assert!(matches!(
            read_frame::<_, u32>(&mut &bytes[..]),
            Err(FrameError::TooLong { .. })
        ));
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        assert!(matches!(
            decoder.next_frame::<u32>(),
            Err(FrameError::TooLong { .. })
        ));
    }

    /// A clean end and a torn frame are told apart: one is the normal end of a step, the other a lost connection.
    #[test]
    fn end_between_frames_is_none_and_inside_is_an_error() {
        assert!(
            read_frame::<_, u32>(&mut &[][..])
                .expect("clean end")
                .is_none()
        );
        let frame = encode(&"hello").expect("encode");
        for cut in 1..frame.len() {
            assert!(
                read_frame::<_, String>(&mut &frame[..cut]).is_err(),
                "cut at {cut}"
            );
        }
    }

    proptest! {
        /// Whatever the pieces a stream arrives in, the same messages come out.
        #[test]
        fn decoder_is_independent_of_pieces(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..8),
            piece in 1usize..17,
        ) {
            let messages: Vec<StepFrame> =
                chunks.into_iter().map(|data| StepFrame::Output { task: 1, is_stderr: false, data }).collect();
            let mut bytes = Vec::new();
            for message in &messages {
                write_frame(&mut bytes, message).expect("write");
            }
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for part in bytes.chunks(piece) {
                decoder.push(part);
                while let Some(message) = decoder.next_frame::<StepFrame>().expect("frame") {
                    seen.push(message);
                }
            }
            prop_assert!(decoder.is_empty());
            prop_assert_eq!(seen, messages);
        }
    }
}
