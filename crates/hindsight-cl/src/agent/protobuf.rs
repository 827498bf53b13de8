//! The little of Protocol Buffers that an ONNX file needs: numbers, bytes and messages within messages.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A field that is a whole number.
    pub(super) fn int(mut self, field: u64, number: u64) -> Message {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    /// A field that is a 32-bit float.
    pub(super) fn float(mut self, field: u64, number: f32) -> Message {
        self.varint(field << 3 | 5);
        self.0.extend(number.to_le_bytes());
        self
    }

    /// A field that is text or bytes.
    pub(super) fn bytes(mut self, field: u64, bytes: impl AsRef<[u8]>) -> Message {
        self.varint(field << 3 | 2);
        self.varint(bytes.as_ref().len() as u64);
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    /// A field that is a message.
    pub(super) fn message(self, field: u64, message: Message) -> Message {
        self.bytes(field, message.0)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_encoding_is_specified() {
        // 150 in field 1, "testing" in field 2, and the first of both in field 3.
        let inner = Message::default().int(1, 150);
        let message = Message::default().int(1, 150).bytes(2, "testing").message(3, inner).float(4, 1.0);
        let expected = b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01\x25\x00\x00\x80\x3f";
        assert_eq!(message.into_bytes(), expected);
    }
}
