//! The modules of a target, parsed: their tokens and imports, without the code of inline tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit::Visit;
use syn::{Attribute, Expr, Item, ItemMod, ItemUse, Lit, Meta, UseTree};

/// One module.
#[derive(Debug)]
pub(super) struct Module {
    /// From the root of the repository, with slashes.
    pub(super) file: String,
    /// The crate and the modules: `["sabir_core", "agent", "codex"]`.
    pub(super) path: Vec<String>,
    /// All code but that of modules inside it.
    pub(super) tokens: Vec<Token>,
    pub(super) imports: Vec<Import>,
}

/// One path of a `use`, groups taken apart.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Vec<Token>,
    /// What it is called here.
    name: String,
}

/// A token; `::` is one.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

impl Token {
    fn of(ident: &Ident) -> Self {
        Self { text: ident.to_string(), line: ident.span().start().line }
    }

    fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// The modules of a target whose root is that file. The files of all its modules, those of tests too, are added to `files`.
pub(super) fn load(root: &Path, file: &Path, name: &str, files: &mut BTreeSet<PathBuf>) -> Result<Vec<Module>> {
    let mut loader = Loader { root, files, modules: Vec::new() };
    let folder = file.parent().context("a file is in a folder")?;
    loader.file(file, folder, vec![name.replace('-', "_")], false)?;
    Ok(loader.modules)
}

struct Loader<'a> {
    root: &'a Path,
    files: &'a mut BTreeSet<PathBuf>,
    modules: Vec<Module>,
}

impl Loader<'_> {
    /// Reads a file, whose inner modules are in that folder.
    fn file(&mut self, file: &Path, folder: &Path, path: Vec<String>, is_test: bool) -> Result<()> {
        let text = std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?;
        let file = file.canonicalize()?;
        let parsed = syn::parse_file(&text)
            .map_err(|error| anyhow!("{}:{}: {error}", super::shown(self.root, &file), error.span().start().line))?;
        self.files.insert(file.clone());
        self.module(&file, folder, path, parsed.items, is_test)
    }

    fn module(&mut self, file: &Path, folder: &Path, path: Vec<String>, items: Vec<Item>, is_test: bool) -> Result<()> {
        let mut module = Module { file: super::shown(self.root, file), path, tokens: Vec::new(), imports: Vec::new() };
        for item in items {
            let code = item.to_token_stream();
            let is_test = is_test || is_for_tests(&code);
            if let Item::Mod(inner) = item {
                self.inner(file, folder, &module.path, inner, is_test)?;
            } else if !is_test {
                flatten(code, &mut module.tokens);
                Imports(&mut module.imports).visit_item(&item);
            }
        }
        if !is_test {
            self.modules.push(module);
        }
        Ok(())
    }

    fn inner(&mut self, file: &Path, folder: &Path, path: &[String], module: ItemMod, is_test: bool) -> Result<()> {
        let name = module.ident.to_string();
        let path = [path, std::slice::from_ref(&name)].concat();
        let folder = folder.join(&name);
        if let Some((_, items)) = module.content {
            return self.module(file, &folder, path, items, is_test);
        }
        let named = module.attrs.iter().find_map(path_attribute).map(|path| file.with_file_name(path));
        let beside = folder.with_extension("rs");
        match named {
            // The modules of `mod.rs` are beside it, those of any other file in a folder of its name.
            Some(named) if named.ends_with("mod.rs") => self.file(&named, named.parent().unwrap_or(&folder), path, is_test),
            Some(named) => self.file(&named, &named.with_extension(""), path, is_test),
            None if beside.is_file() => self.file(&beside, &folder, path, is_test),
            None => self.file(&folder.join("mod.rs"), &folder, path, is_test),
        }
    }
}

impl Module {
    /// A module of that text, for tests.
    #[cfg(test)]
    pub(super) fn parse(path: &str, text: &str) -> Vec<Self> {
        let mut loader = Loader { root: Path::new(""), files: &mut BTreeSet::new(), modules: Vec::new() };
        let file = PathBuf::from(path.replace("::", "/") + ".rs");
        let path: Vec<String> = path.split("::").map(str::to_owned).collect();
        let items = syn::parse_file(text).unwrap().items;
        loader.module(&file, Path::new(""), path, items, false).unwrap();
        loader.modules
    }

    /// Every path in it that begins at a crate or at another module, from its crate on, with its line.
    pub(super) fn paths(&self) -> impl Iterator<Item = (Vec<String>, usize)> {
        self.imports.iter().map(|import| &import.path).chain([&self.tokens]).flat_map(|tokens| self.paths_of(tokens))
    }

    fn paths_of<'m>(&'m self, tokens: &'m [Token]) -> impl Iterator<Item = (Vec<String>, usize)> + 'm {
        let is_inside = |at: usize| at.checked_sub(1).is_some_and(|before| ["::", "."].contains(&tokens[before].text.as_str()));
        let starts = (0..tokens.len()).filter(move |at| tokens[*at].is_name() && !is_inside(*at));
        starts.filter_map(move |at| {
            let mut names = vec![tokens[at].text.as_str()];
            let mut rest = &tokens[at + 1..];
            while let [colons, name, after @ ..] = rest
                && colons.text == "::"
                && name.is_name()
            {
                names.push(&name.text);
                rest = after;
            }
            (names.len() > 1).then(|| Some((self.resolve(&names)?, tokens[at].line))).flatten()
        })
    }

    /// The path from its crate on; `None` above the root of the crate.
    fn resolve(&self, names: &[&str]) -> Option<Vec<String>> {
        let import = self.imports.iter().find(|import| import.name == names[0] && import.path.len() > 1);
        let Some(import) = import else { return self.absolute(names) };
        let import: Vec<&str> = import.path.iter().filter(|token| token.is_name()).map(|token| token.text.as_str()).collect();
        self.absolute(&[&import, &names[1..]].concat())
    }

    fn absolute(&self, names: &[&str]) -> Option<Vec<String>> {
        let supers = names.iter().take_while(|name| **name == "super").count();
        let (base, rest) = match names[0] {
            "crate" => (&self.path[..1], &names[1..]),
            "self" => (&self.path[..], &names[1..]),
            "super" => (&self.path[..self.path.len().checked_sub(supers)?], &names[supers..]),
            _ => (&self.path[..0], names),
        };
        Some(base.iter().cloned().chain(rest.iter().map(|name| (*name).to_owned())).collect())
    }
}

/// Collects what `use` brings in, in functions too.
struct Imports<'m>(&'m mut Vec<Import>);

impl Visit<'_> for Imports<'_> {
    fn visit_item_use(&mut self, item: &ItemUse) {
        self.tree(&item.tree, Vec::new());
    }
}

impl Imports<'_> {
    fn tree(&mut self, tree: &UseTree, mut path: Vec<Token>) {
        let mut name = match tree {
            UseTree::Path(inner) => {
                let first = Token::of(&inner.ident);
                let colons = Token { text: "::".to_owned(), line: first.line };
                path.extend([first, colons]);
                return self.tree(&inner.tree, path);
            }
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.tree(tree, path.clone())),
            UseTree::Name(last) => Token::of(&last.ident),
            UseTree::Rename(last) => Token::of(&last.ident),
            UseTree::Glob(_) => Token { text: "self".to_owned(), line: path.last().map_or(0, |token| token.line) },
        };
        // `self` in a group, and `*`, are the module.
        if name.text == "self" {
            path.pop();
            name = path.pop().unwrap_or(name);
        }
        let renamed = if let UseTree::Rename(last) = tree { last.rename.to_string() } else { name.text.clone() };
        // In a group of many lines, the line of the name.
        let line = name.line;
        path.push(name);
        path.iter_mut().for_each(|token| token.line = line);
        self.0.push(Import { path, name: renamed });
    }
}

/// Adds the tokens of code, without documentation.
fn flatten(code: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = code.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        let mut push = |text: String| tokens.push(Token { text, line });
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket if is_documentation(&group) => continue,
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(open.to_owned());
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), line: group.span_close().start().line });
            }
            TokenTree::Punct(punct) => {
                let is_path = |next: &TokenTree| matches!(next, TokenTree::Punct(next) if next.as_char() == ':');
                let is_path = punct.as_char() == ':' && punct.spacing() == Spacing::Joint && trees.next_if(is_path).is_some();
                push(if is_path { "::".to_owned() } else { punct.to_string() });
            }
            other => push(other.to_string()),
        }
    }
}

fn is_documentation(group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}

/// Whether an item is compiled for tests alone: `#[cfg(test)]`, also together with other conditions.
fn is_for_tests(item: &TokenStream) -> bool {
    let mut trees = item.clone().into_iter();
    while let (Some(TokenTree::Punct(_)), Some(TokenTree::Group(attribute))) = (trees.next(), trees.next()) {
        let mut tokens = Vec::new();
        flatten(attribute.stream(), &mut tokens);
        let has = |word: &str| tokens.iter().any(|token| token.text == word);
        if tokens.first().is_some_and(|first| first.text == "cfg") && has("test") && !has("not") {
            return true;
        }
    }
    false
}

/// The text of `#[path = "…"]`.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(value) = &pair.value else { return None };
    let Lit::Str(path) = &value.lit else { return None };
    pair.path.is_ident("path").then(|| path.value())
}
