//! An agent as an ONNX file: what it answers, without what it learns with.
//!
//! The graph takes inputs as the agent does, `x`, scales them in double precision as the agent does, and
//! gives `logits` and `probabilities`. Weights are read from theta by its layout: `docs/checkpoints.md`.

use hindsight_nn::{Inputs, Layer, Rng};

use super::{Agent, AgentError, protobuf::Message};
use crate::{methods::softmax, record::PROGRAM, run::network, scaling::FARTHEST, settings::NetworkKind};

/// Of the format, and of its operators.
const IR_VERSION: u64 = 8;
const OPERATORS: u64 = 13;

/// As in batch-norm.
const EPSILON: f32 = 1e-3;

/// Blocks in a stage of a residual network.
const BLOCKS: usize = 2;

const FLOAT: u64 = 1;
const DOUBLE: u64 = 11;

impl Agent {
    /// The bytes of an ONNX model that answers as this agent does, for `task` where tasks have heads of their
    /// own: input `x` (`[n, values]`, or `[n, channels, height, width]`), outputs `logits` and
    /// `probabilities` (`[n, classes]`); class names, feature names and task are in the metadata.
    ///
    /// For methods that answer by their network; others are refused.
    pub fn to_onnx(&self, task: u32) -> Result<Vec<u8>, AgentError> {
        self.alive()?;
        let shape = self.shape();
        self.predict(&vec![0.0; self.width()], task)?;
        let net = network(&self.config, shape);
        let learner = self.learner();
        let theta = learner.theta();
        self.check_network_answers(theta, task)?;

        let allowed = shape.heads.classes(task as usize, self.classes());
        let mut graph = Graph { theta, ..Graph::default() };
        let mut x = self.scaled(&mut graph);
        let shared = self.config.shared_settings();
        let (features, body) = match shared.network {
            NetworkKind::Mlp => {
                if shape.input[1] > 1 || shape.input[0] > 1 {
                    x = graph.node("Flatten", &[&x], &[]);
                }
                let mut inputs = self.width();
                let mut start = 0;
                for width in shared.hidden {
                    x = graph.linear(&x, start, inputs, width, &(0..width).collect::<Vec<_>>());
                    x = graph.node("Relu", &[&x], &[]);
                    (start, inputs) = (start + (inputs + 1) * width, width);
                }
                (inputs, start)
            }
            NetworkKind::ResNet => {
                let outputs = graph.residual(
                    &mut x,
                    shape.input[0],
                    &shared.maps,
                    shared.stem_stride,
                    net.trainable(),
                    shape.classes,
                );
                x = graph.node("GlobalAveragePool", &[&x], &[]);
                x = graph.node("Flatten", &[&x], &[]);
                outputs
            }
        };
        let logits = graph.linear(&x, body, features, shape.classes, &allowed);
        graph.rename(&logits, "logits");
        let axis = [("axis", Attribute::Int(1))];
        let probabilities = graph.node("Softmax", &["logits"], &axis);
        graph.rename(&probabilities, "probabilities");

        let names = |class: &usize| match &shape.names {
            Some(names) => names[*class].clone(),
            None => class.to_string(),
        };
        let classes: Vec<String> = allowed.iter().map(names).collect();
        let json = |names: &[String]| serde_json::to_string(names).unwrap_or_default();
        let application = self.application();
        let mut properties = vec![
            ("classes", json(&classes)),
            ("method", self.config.method.name.to_owned()),
            ("samples", application.samples.to_string()),
        ];
        properties.extend(application.features.as_ref().map(|names| ("features", json(names))));
        properties.extend(application.tasks.get(task as usize).map(|name| ("task", name.clone())));
        Ok(graph.model(shape.input, allowed.len(), &properties))
    }

    /// Refuses a learner whose answers are not those of its network.
    fn check_network_answers(&self, theta: &[f32], task: u32) -> Result<(), AgentError> {
        let (shape, mut rng) = (self.shape(), Rng::named(0, "probes"));
        let net = network(&self.config, shape);
        let probes: Vec<f32> = (0..16 * self.width()).map(|_| rng.normal() as f32).collect();
        let inputs = Inputs::dense(&probes, self.width());
        let found = self.learner().predict_proba(&inputs, task as usize);
        let mut expected = if theta.len() == net.parameters() {
            net.infer(theta, &inputs, Layer::Logits)
        } else {
            Vec::new()
        };
        expected
            .chunks_exact_mut(shape.classes)
            .for_each(|row| softmax(row, |class| shape.allows(task, class as u32)));
        match found == expected {
            true => Ok(()),
            false => Err(AgentError::NotANetwork { method: self.config.method.name.to_owned() }),
        }
    }

    /// The inputs as the network sees them.
    fn scaled(&self, graph: &mut Graph<'_>) -> String {
        let (shape, standardised) = (self.shape(), self.application().scaling.is_some());
        let mut x = "x".to_owned();
        if shape.scale.is_none() && !standardised {
            return x;
        }
        let dims: &[usize] = match shape.input {
            [1, 1, _] => &shape.input[2..],
            _ => &shape.input,
        };
        x = graph.node("Cast", &[&x], &[("to", Attribute::Int(DOUBLE))]);
        if !shape.scale.is_none() {
            let pairs = shape.scale.pairs();
            let mean = graph.tensor(DOUBLE, dims, pairs.iter().flat_map(|(mean, _)| mean.to_le_bytes()));
            let factor =
                graph.tensor(DOUBLE, dims, pairs.iter().flat_map(|(_, factor)| factor.to_le_bytes()));
            x = graph.node("Sub", &[&x, &mean], &[]);
            x = graph.node("Mul", &[&x, &factor], &[]);
        }
        let most = f64::from(if standardised { FARTHEST } else { f32::MAX });
        let [low, high] = [-most, most].map(|bound| graph.tensor(DOUBLE, &[], bound.to_le_bytes()));
        x = graph.node("Clip", &[&x, &low, &high], &[]);
        graph.node("Cast", &[&x], &[("to", Attribute::Int(FLOAT))])
    }
}

#[derive(Clone)]
enum Attribute {
    Int(u64),
    Ints(Vec<u64>),
    Float(f32),
}

/// A graph under construction.
#[derive(Default)]
struct Graph<'t> {
    theta: &'t [f32],
    /// Operator, inputs, output and attributes.
    nodes: Vec<Node>,
    tensors: Vec<Message>,
}

struct Node {
    operator: &'static str,
    inputs: Vec<String>,
    output: String,
    attributes: Vec<(&'static str, Attribute)>,
}

impl Graph<'_> {
    /// Adds a node and returns the name of its output.
    fn node(
        &mut self,
        operator: &'static str,
        inputs: &[&str],
        attributes: &[(&'static str, Attribute)],
    ) -> String {
        let output = format!("{}_{}", operator.to_lowercase(), self.nodes.len());
        self.nodes.push(Node {
            operator,
            inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: output.clone(),
            attributes: attributes.to_vec(),
        });
        output
    }

    /// Gives the output of the last node a name for users.
    fn rename(&mut self, from: &str, to: &str) {
        if let Some(node) = self.nodes.iter_mut().find(|node| node.output == from) {
            node.output = to.to_owned();
        }
    }

    /// Adds a tensor and returns its name.
    fn tensor(&mut self, kind: u64, dims: &[usize], bytes: impl IntoIterator<Item = u8>) -> String {
        let name = format!("tensor_{}", self.tensors.len());
        let mut tensor = Message::default();
        for &dim in dims {
            tensor = tensor.int(1, dim as u64);
        }
        let bytes: Vec<u8> = bytes.into_iter().collect();
        self.tensors.push(tensor.int(2, kind).bytes(8, &name).bytes(9, bytes));
        name
    }

    fn floats(&mut self, dims: &[usize], values: impl IntoIterator<Item = f32>) -> String {
        self.tensor(FLOAT, dims, values.into_iter().flat_map(f32::to_le_bytes))
    }

    /// Weights `[inputs, outputs]` and biases from `start` on, of the outputs `chosen`.
    fn linear(&mut self, x: &str, start: usize, inputs: usize, outputs: usize, chosen: &[usize]) -> String {
        let theta = self.theta;
        let row = |row: usize| chosen.iter().map(move |&output| theta[start + row * outputs + output]);
        let weights = self.floats(&[inputs, chosen.len()], (0..inputs).flat_map(row));
        let bias = self.floats(&[chosen.len()], row(inputs));
        self.node("Gemm", &[x, &weights, &bias], &[])
    }

    /// Stem and stages. Returns the number of features and where the output layer begins.
    fn residual(
        &mut self,
        x: &mut String,
        mut channels: usize,
        maps: &[usize],
        stem_stride: usize,
        trainable: usize,
        classes: usize,
    ) -> (usize, usize) {
        // Running statistics come behind all that is trained, in the order of the convolutions.
        let mut place = Place { weights: 0, state: trainable };
        *x = self.unit(x, 3, stem_stride, channels, maps[0], &mut place);
        *x = self.node("Relu", &[x], &[]);
        channels = maps[0];
        for (stage, &outputs) in maps.iter().enumerate() {
            for block in 0..BLOCKS {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let first = self.unit(x, 3, stride, channels, outputs, &mut place);
                let first = self.node("Relu", &[&first], &[]);
                let second = self.unit(&first, 3, 1, outputs, outputs, &mut place);
                let shortcut = match stride > 1 || channels != outputs {
                    true => self.unit(x, 1, stride, channels, outputs, &mut place),
                    false => x.clone(),
                };
                let sum = self.node("Add", &[&second, &shortcut], &[]);
                *x = self.node("Relu", &[&sum], &[]);
                channels = outputs;
            }
        }
        debug_assert_eq!(place.weights + (channels + 1) * classes, trainable);
        (channels, place.weights)
    }

    /// A convolution and its batch-norm under running statistics.
    fn unit(
        &mut self,
        x: &str,
        kernel: usize,
        stride: usize,
        inputs: usize,
        outputs: usize,
        place: &mut Place,
    ) -> String {
        let (theta, start) = (self.theta, place.weights);
        // From [kernel, kernel, inputs, outputs] to [outputs, inputs, kernel, kernel].
        let taps = kernel * kernel;
        let weight = move |i: usize| {
            let (output, input, tap) = (i / (inputs * taps), i / taps % inputs, i % taps);
            theta[start + (tap * inputs + input) * outputs + output]
        };
        let weights =
            self.floats(&[outputs, inputs, kernel, kernel], (0..outputs * inputs * taps).map(weight));
        let pad = (kernel / 2) as u64;
        let attributes = [
            ("kernel_shape", Attribute::Ints(vec![kernel as u64; 2])),
            ("strides", Attribute::Ints(vec![stride as u64; 2])),
            ("pads", Attribute::Ints(vec![pad; 4])),
        ];
        let z = self.node("Conv", &[x, &weights], &attributes);
        let norm = start + taps * inputs * outputs;
        let parts = [norm, norm + outputs, place.state, place.state + outputs];
        let parts = parts.map(|from| self.floats(&[outputs], theta[from..][..outputs].iter().copied()));
        *place = Place { weights: norm + 2 * outputs, state: place.state + 2 * outputs };
        let [gamma, beta, mean, variance] = &parts;
        let epsilon = [("epsilon", Attribute::Float(EPSILON))];
        self.node("BatchNormalization", &[&z, gamma, beta, mean, variance], &epsilon)
    }

    fn model(self, input: [usize; 3], classes: usize, properties: &[(&str, String)]) -> Vec<u8> {
        let mut graph = Message::default();
        for node in &self.nodes {
            graph = graph.message(1, node.message());
        }
        graph = graph.bytes(2, "hindsight");
        for tensor in self.tensors {
            graph = graph.message(5, tensor);
        }
        let inputs = match input {
            [1, 1, width] => vec![width],
            image => image.to_vec(),
        };
        graph = graph.message(11, value("x", &inputs));
        graph =
            graph.message(12, value("logits", &[classes])).message(12, value("probabilities", &[classes]));
        let operators = Message::default().bytes(1, "").int(2, OPERATORS);
        let mut model =
            Message::default().int(1, IR_VERSION).bytes(2, PROGRAM).message(7, graph).message(8, operators);
        for (key, text) in properties {
            model = model.message(14, Message::default().bytes(1, key).bytes(2, text));
        }
        model.into_bytes()
    }
}

/// Where the next convolution is in theta, and where its running statistics are.
struct Place {
    weights: usize,
    state: usize,
}

impl Node {
    fn message(&self) -> Message {
        let mut node = Message::default();
        for input in &self.inputs {
            node = node.bytes(1, input);
        }
        node = node.bytes(2, &self.output).bytes(3, &self.output).bytes(4, self.operator);
        for (name, attribute) in &self.attributes {
            let message = Message::default().bytes(1, name);
            // The last field is the kind of attribute.
            node = node.message(
                5,
                match attribute {
                    Attribute::Float(number) => message.float(2, *number).int(20, 1),
                    Attribute::Int(number) => message.int(3, *number).int(20, 2),
                    Attribute::Ints(numbers) => {
                        numbers.iter().fold(message, |message, &number| message.int(8, number)).int(20, 7)
                    }
                },
            );
        }
        node
    }
}

/// An input or output of any number of rows.
fn value(name: &str, dims: &[usize]) -> Message {
    let rows = Message::default().bytes(2, "n");
    let mut shape = Message::default().message(1, rows);
    for &dim in dims {
        shape = shape.message(1, Message::default().int(1, dim as u64));
    }
    let tensor = Message::default().int(1, FLOAT).message(2, shape);
    Message::default().bytes(1, name).message(2, Message::default().message(1, tensor))
}
