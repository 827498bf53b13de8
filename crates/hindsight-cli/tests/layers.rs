//! The module graph of every crate of the workspace has no cycle.
//!
//! Reads `src` and takes every path that begins at the root of the crate (`crate::`, or enough `super::`) as
//! an arrow from one top-level module to another; a folder is one module. Names that the root re-exports
//! count as the module that they come from. Code under `#[cfg(test)]` does not count. Expects code formatted
//! by rustfmt.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_module_graph_of_every_crate_has_no_cycle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["nn", "data", "cl", "report", "cli", "py"] {
        let graph = module_graph(&crates.join(format!("hindsight-{name}/src")));
        assert!(graph.values().any(|targets| !targets.is_empty()), "no path between modules was found");
        if let Some(cycle) = cycle(&graph) {
            panic!("modules of hindsight-{name} import each other in a cycle: {}", cycle.join(" -> "));
        }
    }
}

/// The modules that each top-level module below `src` uses.
fn module_graph(src: &Path) -> Graph {
    let root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|path| path.exists());
    let root = code(&root.expect("a crate has lib.rs or main.rs"));
    let modules: BTreeSet<String> = submodules(&root).into_iter().collect();
    let mut owner: BTreeMap<String, String> =
        modules.iter().map(|name| (name.clone(), name.clone())).collect();
    for item in root.split(';') {
        let Some((_, tree)) = item.rsplit_once("use ") else { continue };
        for path in expand(tree) {
            let path = path.trim_start_matches("crate::").trim_start_matches("self::");
            let (Some(module), Some(name)) = (path.split("::").next(), path.rsplit([':', ' ']).next()) else {
                continue;
            };
            if modules.contains(module) {
                owner.entry(name.to_owned()).or_insert(module.to_owned());
            }
        }
    }
    let targets = |module: &String| {
        let paths = root_paths(src, module, 1);
        let owners = paths.iter().filter_map(|path| owner.get(path.split("::").next()?));
        owners.filter(|target| *target != module).cloned().collect()
    };
    modules.iter().map(|module| (module.clone(), targets(module))).collect()
}

/// The paths from the root of the crate in the files of a module, which is `depth` levels below the root.
fn root_paths(folder: &Path, module: &str, depth: usize) -> Vec<String> {
    let (file, inner) = (folder.join(format!("{module}.rs")), folder.join(module));
    let text = code(&if file.exists() { file } else { inner.join("mod.rs") });
    let mut paths = Vec::new();
    for keyword in ["crate::", "super::"] {
        for (at, _) in text.match_indices(keyword) {
            let starts_here = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            for path in expand(&text[at..]).into_iter().filter(|_| starts_here) {
                let prefix =
                    if keyword == "crate::" { "crate::".to_owned() } else { "super::".repeat(depth) };
                paths.extend(path.strip_prefix(&prefix).map(str::to_owned));
            }
        }
    }
    for child in submodules(&text) {
        paths.extend(root_paths(&inner, &child, depth + 1));
    }
    paths
}

/// The paths at the beginning of `text`: one, or those of a `use` tree such as `a::{b, c::{d, e as f}}`.
fn expand(text: &str) -> Vec<String> {
    let (mut paths, mut outer, mut prefix, mut word) = (Vec::new(), Vec::new(), String::new(), String::new());
    for c in text.chars() {
        match c {
            '{' if word.is_empty() || word.ends_with("::") => {
                outer.push(prefix.clone());
                prefix.push_str(&std::mem::take(&mut word));
            }
            ',' | '}' if !outer.is_empty() => {
                let name = std::mem::take(&mut word);
                if !name.trim().is_empty() {
                    paths.push(format!("{prefix}{}", name.trim()));
                }
                if c == '}' {
                    prefix = outer.pop().unwrap_or_default();
                    if outer.is_empty() {
                        return paths;
                    }
                }
            }
            c if c.is_alphanumeric() || c == '_' || c == ':' => word.push(c),
            c if c.is_whitespace() && !outer.is_empty() => {
                word.push_str(if word.is_empty() { "" } else { " " })
            }
            _ => break,
        }
    }
    paths.extend((!word.is_empty()).then(|| format!("{prefix}{}", word.trim())));
    paths
}

/// The names in `mod name;`.
fn submodules(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let (before, name) = line.trim().strip_suffix(';')?.split_once("mod ")?;
        (before.is_empty() || before.starts_with("pub")).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// The text of a file without comments and without test code.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    without_tests(&text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>())
}

/// Leaves out the items under `#[cfg(test)]`: up to a semicolon, or to the brace with the indentation of the
/// item.
fn without_tests(lines: &[&str]) -> String {
    let (mut kept, mut lines) = (String::new(), lines.iter());
    while let Some(line) = lines.next() {
        let Some(indent) = line.strip_suffix("#[cfg(test)]").filter(|indent| indent.trim().is_empty()) else {
            kept.push_str(line);
            kept.push('\n');
            continue;
        };
        let brace = format!("{indent}}}");
        let ends = |line: &&&str| {
            line.ends_with(';') && !line[indent.len()..].starts_with(' ') || line.starts_with(&brace)
        };
        lines.find(ends);
    }
    kept
}

/// A cycle, with its first module repeated at the end.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    fn visit(module: &str, graph: &Graph, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        let before = path.iter().position(|other| other == module);
        path.push(module.to_owned());
        if let Some(start) = before {
            path.drain(..start);
            return true;
        }
        if !done.contains(module)
            && graph.get(module).into_iter().flatten().any(|to| visit(to, graph, path, done))
        {
            return true;
        }
        path.pop();
        done.insert(module.to_owned());
        false
    }
    let (mut path, mut done) = (Vec::new(), BTreeSet::new());
    graph.keys().any(|module| visit(module, graph, &mut path, &mut done)).then_some(path)
}

#[test]
fn use_trees_are_expanded() {
    assert_eq!(expand("{a::B, c::{d::E, f as g}, h};"), ["a::B", "c::d::E", "c::f as g", "h"]);
    assert_eq!(expand("crate::{\n    a,\n    b::C,\n};\nfn f() {}"), ["crate::a", "crate::b::C"]);
    assert_eq!(expand("crate::a::b(x, y)"), ["crate::a::b"]);
    assert_eq!(expand("super::Scalar for X {"), ["super::Scalar"]);
}

#[test]
fn a_cycle_is_found_and_named() {
    let graph = |arrows: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for (from, to) in arrows {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    };
    assert_eq!(cycle(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = cycle(&graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")]));
    assert_eq!(found.unwrap(), ["b", "c", "d", "b"]);
}

#[test]
fn test_code_does_not_count() {
    let text = "use a;\n#[cfg(test)]\nmod tests {\n    use b;\n    fn f() {\n    }\n}\n#[cfg(test)]\nmod t;\nfn g() {}";
    assert_eq!(without_tests(&text.lines().collect::<Vec<_>>()), "use a;\nfn g() {}\n");
}
