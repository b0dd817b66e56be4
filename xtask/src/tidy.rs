//! `cargo xtask tidy`: the layering rules of [`rules`], checked on the syntax tree of every target of the workspace.

mod pattern;
mod rules;
mod source;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::process::cargo;
use pattern::Pattern;
use rules::{CRATES, LAYERS, Layer, PRODUCT, Reserved, TESTS};
use source::Module;

#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<()> {
    let root = crate::root().canonicalize()?;
    let workspace = Workspace::load()?;
    let mut broken = workspace.broken_dependencies(&root, CRATES);
    let (mut product, mut tests) = (Vec::new(), Vec::new());
    for package in &workspace.packages {
        let mut seen = BTreeSet::new();
        for target in &package.targets {
            let modules = source::load(&root, &target.src_path, &target.name, &mut seen)?;
            match target.kind() {
                "test" => tests.extend(modules),
                "lib" | "bin" => product.extend(modules),
                _ => {}
            }
        }
        broken.extend(unreachable_files(&root, package, &seen)?);
    }
    broken.extend(broken_reservations(&product, PRODUCT));
    broken.extend(broken_reservations(&tests, TESTS));
    broken.extend(broken_layers(&product, LAYERS));
    if broken.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
    bail!("rules of xtask/src/tidy/rules.rs are broken:\n{}", lines.join("\n"));
}

/// A place where a rule does not hold.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Broken {
    file: String,
    line: usize,
    what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// The output of `cargo metadata`, as much of it as is needed.
#[derive(Deserialize)]
struct Workspace {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` and `build`; `None` for what the package itself is built from.
    kind: Option<String>,
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Target {
    fn kind(&self) -> &str {
        self.kind.first().map_or("", String::as_str)
    }
}

impl Workspace {
    fn load() -> Result<Self> {
        let output = cargo(&["metadata", "--no-deps", "--format-version", "1"]).output()?;
        serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Dependencies between the workspace's own packages that the table does not have.
    fn broken_dependencies(&self, root: &Path, crates: &[(&str, &[&str])]) -> BTreeSet<Broken> {
        let mut broken = BTreeSet::new();
        for package in &self.packages {
            let mut report = |what| {
                broken.insert(Broken { file: shown(root, &package.manifest_path), line: 1, what });
            };
            let Some((_, allowed)) = crates.iter().find(|(name, _)| *name == package.name) else {
                report(format!("`{}` is not in the table of crates", package.name));
                continue;
            };
            let own = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
            for dependency in own.filter(|dependency| dependency.kind.as_deref() != Some("dev")) {
                if !allowed.contains(&dependency.name.as_str()) {
                    report(format!("`{}` may not depend on `{}`", package.name, dependency.name));
                }
            }
        }
        broken
    }
}

/// Files of a package's folders of source that no target has as a module.
fn unreachable_files(root: &Path, package: &Package, seen: &BTreeSet<PathBuf>) -> Result<BTreeSet<Broken>> {
    let mut broken = BTreeSet::new();
    let package = package.manifest_path.parent().context("a manifest is in a folder")?.canonicalize()?;
    let mut folders = vec![package.join("src"), package.join("tests")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !seen.contains(&path) {
                let what = "no target has this file as a module".to_owned();
                broken.insert(Broken { file: shown(root, &path), line: 1, what });
            }
        }
    }
    Ok(broken)
}

/// Names that are used outside the files that they are reserved to.
fn broken_reservations(modules: &[Module], rules: &[Reserved]) -> BTreeSet<Broken> {
    let mut broken = BTreeSet::new();
    for rule in rules {
        let patterns: Vec<Pattern> = rule.names.iter().map(|name| Pattern::new(name)).collect();
        let starts_with = |module: &Module, paths: &[&str]| paths.iter().any(|path| module.file.starts_with(path));
        for module in modules.iter().filter(|module| starts_with(module, rule.inside) && !starts_with(module, rule.except)) {
            for pattern in &patterns {
                let what = format!("`{}`: {}", pattern.text, rule.why);
                let lines =
                    pattern.lines(&module.tokens).chain(module.imports.iter().flat_map(|import| pattern.lines(&import.path)));
                broken.extend(lines.map(|line| Broken { file: module.file.clone(), line, what: what.clone() }));
            }
        }
    }
    broken
}

/// Modules that see others which their layer does not allow.
fn broken_layers(modules: &[Module], layers: &[Layer]) -> BTreeSet<Broken> {
    let mut broken = BTreeSet::new();
    for layer in layers {
        for module in modules {
            for (path, line) in module.paths() {
                if let Some(what) = layer.forbids(&module.path, &path, modules) {
                    broken.insert(Broken { file: module.file.clone(), line, what });
                }
            }
        }
    }
    broken
}

impl Layer {
    /// Why a module may not see what is at a path, if it may not.
    fn forbids(&self, module: &[String], path: &[String], modules: &[Module]) -> Option<String> {
        let parent: Vec<String> = self.parent.split("::").map(str::to_owned).collect();
        let unit = module.strip_prefix(&*parent)?.first()?;
        if let Some(rest) = path.strip_prefix(&*parent) {
            let sibling = rest.first().filter(|sibling| *sibling != unit && !self.shared.contains(&sibling.as_str()))?;
            // Anything else in there is an item of the parent.
            let is_unit = modules.iter().any(|other| other.path.strip_prefix(&*parent) == Some(std::slice::from_ref(sibling)));
            return is_unit.then(|| format!("`{unit}` may not see its sibling `{sibling}`"));
        }
        // What other crates have is a matter of their dependencies.
        let top = path.strip_prefix(&parent[..1])?.first().filter(|top| !self.sees.contains(&top.as_str()))?;
        Some(format!("`{unit}` may not see `{}::{top}`", parent[0]))
    }
}

/// A path from the root of the repository, with slashes.
fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

#[cfg(test)]
mod tests;
