//! Pickled NumPy objects, read without executing anything: the operations of protocol 2 that a dictionary of
//! lists and arrays needs, and four names, each of which stands for a value here. All else is an error.
//!
//! Values are kept once, in a list, and name each other by their places in it. So a value that is used often
//! takes no more memory than one that is used once, and a value that contains itself does no harm.

use std::collections::HashMap;

/// The most operations of a file, which bounds time and memory.
const MAX_OPERATIONS: usize = 1 << 20;

/// What is wrong with a pickle, and at which byte of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum PickleError {
    /// It stops before its end.
    #[error("ends after {at} bytes, expected an operation that ends it")]
    Short { at: usize },
    /// More bytes after its end.
    #[error("goes on after byte {at}, where the object ends")]
    Trailing { at: usize },
    /// An operation that no array needs.
    #[error(
        "byte {at}: found the operation `{}`, expected those of numbers, text, lists and arrays",
        found.escape_ascii()
    )]
    Operation { at: usize, found: u8 },
    /// A function or class that no array needs.
    #[error("byte {at}: found the name `{found}`, expected those of NumPy's arrays")]
    Name { at: usize, found: String },
    /// An operation on a value that it does not take.
    #[error("byte {at}: found no {expected} where the operation needs one")]
    Value { at: usize, expected: &'static str },
    /// More operations than any file of arrays has.
    #[error("found more than {most} operations, expected fewer")]
    Operations { most: usize },
}

/// The place of a value in the list.
pub(super) type Id = usize;

/// A value; containers hold the places of others.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    Text(&'a str),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Name(Name),
    /// Bytes as the text of as many characters below 256, which is how protocol 2 has them.
    Latin1(&'a str),
    ElementType {
        name: &'a str,
        byte_order: &'a str,
    },
    /// An array without its state.
    EmptyArray,
    Array(PickledArray<'a>),
    /// An array of any objects, in a list.
    Objects(Id),
}

/// A name that may be called or passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Reconstruct,
    NdArray,
    DType,
    Encode,
}

/// An array of numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PickledArray<'a> {
    /// Type as in the header of an NPY file, such as `<f8`.
    pub(super) descr: String,
    pub(super) fortran: bool,
    pub(super) dims: Vec<usize>,
    /// A character per byte.
    pub(super) elements: &'a str,
}

/// What a pickle holds.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    values: Vec<Value<'a>>,
    root: Id,
}

impl<'a> Pickle<'a> {
    /// Reads a pickle, to its last byte.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Pickle<'a>, PickleError> {
        let mut machine = Machine {
            bytes,
            at: 0,
            operation: 0,
            values: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        };
        for _ in 0..MAX_OPERATIONS {
            if let Some(root) = machine.step()? {
                return match machine.at < bytes.len() {
                    true => Err(PickleError::Trailing { at: machine.at }),
                    false => Ok(Pickle { values: machine.values, root }),
                };
            }
        }
        Err(PickleError::Operations { most: MAX_OPERATIONS })
    }

    pub(super) fn get(&self, id: Id) -> &Value<'a> {
        &self.values[id]
    }

    /// The value that was pickled.
    pub(super) fn root(&self) -> &Value<'a> {
        self.get(self.root)
    }
}

/// What executes the operations.
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the present operation is, to tell of flaws.
    operation: usize,
    values: Vec<Value<'a>>,
    stack: Vec<Id>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    /// Executes an operation; the last one returns the place of the value.
    fn step(&mut self) -> Result<Option<Id>, PickleError> {
        self.operation = self.at;
        let [operation] = self.take()?;
        match operation {
            // PROTO
            0x80 => match self.take()? {
                [2] => {}
                [_] => return Err(self.flaw("protocol 2")),
            },
            // STOP
            b'.' => {
                let root = self.pop()?;
                return match self.stack.is_empty() && self.marks.is_empty() {
                    true => Ok(Some(root)),
                    false => Err(self.flaw("end of all values")),
                };
            }
            // MARK
            b'(' => self.marks.push(self.stack.len()),
            // NONE, NEWTRUE, NEWFALSE
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            // BININT1, BININT2, BININT
            b'K' => {
                let [number] = self.take()?;
                self.push(Value::Int(number.into()));
            }
            b'M' => {
                let number = u16::from_le_bytes(self.take()?);
                self.push(Value::Int(number.into()));
            }
            b'J' => {
                let number = i32::from_le_bytes(self.take()?);
                self.push(Value::Int(number.into()));
            }
            // BINUNICODE
            b'X' => {
                let len = u32::from_le_bytes(self.take()?) as usize;
                let text = self.take_slice(len)?;
                let text = std::str::from_utf8(text).map_err(|_| self.flaw("UTF-8 text"))?;
                self.push(Value::Text(text));
            }
            // EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3, TUPLE
            b')' => self.push(Value::Tuple(Vec::new())),
            0x85..=0x87 => {
                let count = usize::from(operation - 0x84);
                let items = (0..count).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
                self.push(Value::Tuple(items.into_iter().rev().collect()));
            }
            b't' => {
                let items = self.pop_to_mark()?;
                self.push(Value::Tuple(items));
            }
            // EMPTY_LIST, EMPTY_DICT
            b']' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            // APPEND, APPENDS
            b'a' | b'e' => {
                let items = if operation == b'a' { vec![self.pop()?] } else { self.pop_to_mark()? };
                match self.top()? {
                    Value::List(list) => list.extend(items),
                    _ => return Err(self.flaw("list")),
                }
            }
            // SETITEMS
            b'u' => {
                let items = self.pop_to_mark()?;
                if items.len() % 2 != 0 {
                    return Err(self.flaw("value for every key"));
                }
                match self.top()? {
                    Value::Dict(entries) => {
                        entries.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])))
                    }
                    _ => return Err(self.flaw("dictionary")),
                }
            }
            // BINPUT, LONG_BINPUT
            b'q' | b'r' => {
                let key = self.memo_key(operation == b'q')?;
                let id = *self.stack.last().ok_or_else(|| self.flaw("value"))?;
                self.memo.insert(key, id);
            }
            // BINGET, LONG_BINGET
            b'h' | b'j' => {
                let key = self.memo_key(operation == b'h')?;
                let id = *self.memo.get(&key).ok_or_else(|| self.flaw("value kept under that number"))?;
                self.stack.push(id);
            }
            // GLOBAL
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let value = match (module, name) {
                    ("numpy.core.multiarray", "_reconstruct") => Name::Reconstruct,
                    ("numpy", "ndarray") => Name::NdArray,
                    ("numpy", "dtype") => Name::DType,
                    ("_codecs", "encode") => Name::Encode,
                    _ => {
                        let found = format!("{module}.{name}").chars().take(100).collect();
                        return Err(PickleError::Name { at: self.operation, found });
                    }
                };
                self.push(Value::Name(value));
            }
            // REDUCE
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let value = self.call(function, arguments)?;
                self.push(value);
            }
            // BUILD
            b'b' => {
                let (state, id) = (self.pop()?, self.pop()?);
                self.values[id] = self.build(id, state)?;
                self.stack.push(id);
            }
            found => return Err(PickleError::Operation { at: self.operation, found }),
        }
        Ok(None)
    }

    fn flaw(&self, expected: &'static str) -> PickleError {
        PickleError::Value { at: self.operation, expected }
    }

    fn take_slice(&mut self, len: usize) -> Result<&'a [u8], PickleError> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..len).ok_or(PickleError::Short { at: self.bytes.len() })?;
        self.at += len;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        self.take_slice(N)?.try_into().map_err(|_| PickleError::Short { at: self.bytes.len() })
    }

    /// Text up to the end of a line.
    fn line(&mut self) -> Result<&'a str, PickleError> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&byte| byte == b'\n');
        let line = self.take_slice(len.ok_or(PickleError::Short { at: self.bytes.len() })?)?;
        self.at += 1;
        std::str::from_utf8(line).map_err(|_| self.flaw("UTF-8 text"))
    }

    /// A number of one byte, or of four.
    fn memo_key(&mut self, short: bool) -> Result<u32, PickleError> {
        match short {
            true => self.take().map(|[key]: [u8; 1]| key.into()),
            false => self.take().map(u32::from_le_bytes),
        }
    }

    fn push(&mut self, value: Value<'a>) {
        self.stack.push(self.values.len());
        self.values.push(value);
    }

    /// The last value above the last mark.
    fn pop(&mut self) -> Result<Id, PickleError> {
        let above_mark = self.stack.len() > self.marks.last().copied().unwrap_or(0);
        let id = if above_mark { self.stack.pop() } else { None };
        id.ok_or_else(|| self.flaw("value"))
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Id>, PickleError> {
        let height = self.marks.pop().ok_or_else(|| self.flaw("mark"))?;
        Ok(self.stack.split_off(height))
    }

    /// The last value, which stays.
    fn top(&mut self) -> Result<&mut Value<'a>, PickleError> {
        let id = *self.stack.last().ok_or_else(|| self.flaw("value"))?;
        Ok(&mut self.values[id])
    }

    /// The values of a tuple.
    fn tuple(&self, id: Id) -> Result<Vec<&Value<'a>>, PickleError> {
        match &self.values[id] {
            Value::Tuple(items) => Ok(items.iter().map(|&item| &self.values[item]).collect()),
            _ => Err(self.flaw("tuple")),
        }
    }

    /// What a call would return.
    fn call(&self, function: Id, arguments: Id) -> Result<Value<'a>, PickleError> {
        let arguments = self.tuple(arguments)?;
        match (&self.values[function], &arguments[..]) {
            (
                Value::Name(Name::Reconstruct),
                [Value::Name(Name::NdArray), Value::Tuple(_), Value::Latin1(_)],
            ) => Ok(Value::EmptyArray),
            (Value::Name(Name::Encode), [Value::Text(text), Value::Text("latin1")]) => {
                Ok(Value::Latin1(text))
            }
            (Value::Name(Name::DType), [Value::Text(name), _, _]) => {
                Ok(Value::ElementType { name, byte_order: "|" })
            }
            _ => Err(self.flaw("call that makes an array")),
        }
    }

    /// The value `id` with its state.
    fn build(&self, id: Id, state: Id) -> Result<Value<'a>, PickleError> {
        let parts = self.tuple(state)?;
        match (&self.values[id], &parts[..]) {
            (Value::ElementType { name, .. }, [_, Value::Text(byte_order), ..]) => {
                Ok(Value::ElementType { name, byte_order })
            }
            (Value::EmptyArray, [_, _, Value::ElementType { name: "O8", .. }, _, Value::List(_)]) => {
                match &self.values[state] {
                    Value::Tuple(items) => Ok(Value::Objects(items[4])),
                    _ => Err(self.flaw("tuple")),
                }
            }
            (
                Value::EmptyArray,
                [
                    _,
                    Value::Tuple(dims),
                    Value::ElementType { name: name @ ("f8" | "i8"), byte_order: byte_order @ ("<" | ">") },
                    Value::Bool(fortran),
                    Value::Latin1(elements),
                ],
            ) => {
                let dim = |id: &Id| match self.values[*id] {
                    Value::Int(dim) => usize::try_from(dim).ok(),
                    _ => None,
                };
                let dims = dims.iter().take(32).map(dim).collect::<Option<Vec<usize>>>();
                let dims = dims.ok_or_else(|| self.flaw("dimensions"))?;
                let descr = format!("{byte_order}{name}");
                Ok(Value::Array(PickledArray { descr, fortran: *fortran, dims, elements }))
            }
            _ => Err(self.flaw("state of an array of `f8` or `i8`")),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An object of Python, to be pickled.
    pub(crate) enum Object {
        Text(&'static str),
        List(Vec<Object>),
        Dict(Vec<(&'static str, Object)>),
        /// Type, whether in Fortran order, dimensions, elements.
        Array(&'static str, bool, Vec<u8>, Vec<u8>),
    }

    fn text(text: &str) -> Vec<u8> {
        [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
    }

    /// The operations that make an object, as Python's `pickle` writes them for protocol 2.
    fn operations(object: &Object) -> Vec<u8> {
        match object {
            Object::Text(word) => text(word),
            Object::List(items) => {
                let items: Vec<u8> = items.iter().flat_map(operations).collect();
                [b"](", &items[..], b"e"].concat()
            }
            Object::Dict(entries) => {
                let entries = entries.iter().flat_map(|(key, value)| [text(key), operations(value)].concat());
                [b"}(", &entries.collect::<Vec<u8>>()[..], b"u"].concat()
            }
            Object::Array(name, fortran, dims, elements) => {
                let dims: Vec<u8> = dims.iter().flat_map(|&dim| [b'K', dim]).collect();
                let latin1: String = elements.iter().map(|&byte| char::from(byte)).collect();
                let fortran = if *fortran { 0x88 } else { 0x89 };
                [
                    &b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85"[..],
                    &encoded("b"),
                    b"\x87R(K\x01(",
                    &dims,
                    b"tcnumpy\ndtype\n",
                    &text(name),
                    b"K\0K\x01\x87R(K\x03",
                    &text("<"),
                    b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb",
                    &[fortran],
                    &encoded(&latin1),
                    b"tb",
                ]
                .concat()
            }
        }
    }

    /// Text made into bytes.
    fn encoded(word: &str) -> Vec<u8> {
        [b"c_codecs\nencode\n", &text(word)[..], &text("latin1"), b"\x86R"].concat()
    }

    /// What `numpy.save` writes of an object that is no array.
    pub(crate) fn saved(object: &Object) -> Vec<u8> {
        let header = "{'descr': '|O', 'fortran_order': False, 'shape': (), }\n";
        [
            b"\x93NUMPY\x01\0",
            &(header.len() as u16).to_le_bytes()[..],
            header.as_bytes(),
            b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\0cnumpy\nndarray\nK\0\x85",
            &encoded("b"),
            b"\x87Rr\x01\0\0\0(K\x01)cnumpy\ndtype\n",
            &text("O8"),
            b"K\0K\x01\x87R(K\x03",
            &text("|"),
            b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x3ftb\x89]",
            &operations(object),
            b"atb.",
        ]
        .concat()
    }

    fn root(bytes: &[u8]) -> Result<String, PickleError> {
        Pickle::read(bytes).map(|pickle| format!("{:?}", pickle.root()))
    }

    #[test]
    fn values_are_read_and_kept_ones_used_again() {
        assert_eq!(root(b"\x80\x02N.").unwrap(), "None");
        assert_eq!(root(b"J\xfe\xff\xff\xff.").unwrap(), "Int(-2)");
        assert_eq!(root(b"M\x01\x02.").unwrap(), "Int(513)");
        assert_eq!(root(b"X\x02\0\0\0\xc3\xa4.").unwrap(), "Text(\"ä\")");
        let pickle = Pickle::read(b"](K\x07q\x05h\x05r\x05\0\0\x01j\x05\0\0\x01e.").unwrap();
        let Value::List(items) = pickle.root() else { panic!("a list") };
        assert_eq!(items.len(), 3);
        assert!(items.iter().all(|&id| *pickle.get(id) == Value::Int(7)));
    }

    #[test]
    fn an_array_is_described_and_not_made() {
        let bytes = saved(&Object::Array("f8", true, vec![1, 2], vec![0xff; 16]));
        let pickle = Pickle::read(&bytes[bytes.iter().position(|&b| b == 0x80).unwrap()..]).unwrap();
        let Value::Objects(list) = pickle.root() else { panic!("objects") };
        let Value::List(items) = pickle.get(*list) else { panic!("a list") };
        let Value::Array(array) = pickle.get(items[0]) else { panic!("an array") };
        assert_eq!((&*array.descr, array.fortran, &array.dims[..]), ("<f8", true, &[1, 2][..]));
        assert_eq!(array.elements.chars().count(), 16);
    }

    #[test]
    fn other_names_and_operations_are_refused() {
        let error = root(b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.").unwrap_err();
        assert_eq!(error.to_string(), "byte 2: found the name `os.system`, expected those of NumPy's arrays");
        for operation in 0..=u8::MAX {
            let known = b"\x80.(N\x88\x89KMJX)\x85\x86\x87t]}aeuqrhjcRb".contains(&operation);
            let refused =
                matches!(root(&[operation, 0, 0, 0, 0, 0]), Err(PickleError::Operation { at: 0, .. }));
            assert_eq!(refused, !known, "{operation:#x}");
        }
        // Later protocols have other operations.
        assert!(matches!(root(b"\x80\x04N."), Err(PickleError::Value { expected: "protocol 2", .. })));
        // A name may not be called with what it does not take.
        assert!(matches!(root(b"cnumpy\nndarray\nK\0\x85R."), Err(PickleError::Value { at: 18, .. })));
    }

    #[test]
    fn operations_without_their_values_are_refused() {
        for bytes in [
            &b"."[..],
            b"\x85.",
            b"t.",
            b"e.",
            b"a.",
            b"u.",
            b"q\0.",
            b"h\0.",
            b"R.",
            b"b.",
            b"NN.",
            b"(N.",
            b"N(.",
            b"N(a.",
            b"}(Nu.",
            b"](NNu.",
            b"}Na.",
            b"NNR.",
            b"NNb.",
            b"N)b.",
            b"X\x01\0\0\0\xff.",
        ] {
            assert!(matches!(root(bytes), Err(PickleError::Value { .. })), "{}", bytes.escape_ascii());
        }
        for bytes in [&b""[..], b"N", b"K", b"J\0\0", b"X\xff\xff\xff\x7fabc", b"cnumpy", b"cnumpy\narray"] {
            assert!(matches!(root(bytes), Err(PickleError::Short { .. })), "{}", bytes.escape_ascii());
        }
        assert!(matches!(root(b"N.N"), Err(PickleError::Trailing { at: 2 })));
    }

    #[test]
    fn a_value_that_contains_itself_and_one_that_doubles_take_little() {
        assert!(root(b"]q\0h\0a.").is_ok());
        let doubled: Vec<u8> = (0..200).flat_map(|i| [b'q', i, b'h', i, 0x86]).collect();
        assert!(Pickle::read(&[b"N", &doubled[..], b"."].concat()).is_ok());
        let endless = [vec![b'N'; MAX_OPERATIONS], b".".to_vec()].concat();
        assert!(matches!(root(&endless), Err(PickleError::Operations { .. })));
    }
}
