//! Copies the core's sources and plants the bugs of `src/bugs.rs` into the copy, each behind a question.

use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/bugs.rs"]
#[expect(dead_code, reason = "how soon a bug is found concerns its test")]
mod bugs;

use bugs::BUGS;

fn main() {
    let core = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../src");
    let copy = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("src");
    println!("cargo::rerun-if-changed={}", core.display());
    println!("cargo::rerun-if-changed=src/bugs.rs");
    let _ = fs::remove_dir_all(&copy);
    copy_all(&core, &copy);

    // What does not fit is told by a test: nobody's build fails for it.
    let mut misfits = Vec::new();
    for (number, bug) in BUGS.iter().enumerate() {
        for edit in bug.edits {
            let file = copy.join(edit.file);
            let source = fs::read_to_string(&file).unwrap_or_default();
            if source.matches(edit.from).count() == 1 {
                let to = edit.to.replace("PLANTED", &format!("crate::planted::is({number})"));
                fs::write(&file, source.replace(edit.from, &to)).expect("the copy can be written");
            } else {
                misfits.push(format!("{}: src/{} has no such place, or several", bug.name, edit.file));
            }
        }
    }
    let root = root(&copy);
    fs::write(copy.join("root.rs"), root).expect("the copy can be written");
    let misfits =
        format!("/// Bugs that have no place any more.\npub const MISFITS: &[&str] = &{misfits:?};\n");
    fs::write(copy.join("misfits.rs"), misfits).expect("the copy can be written");
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("a folder can be read") {
        let entry = entry.expect("a folder can be read");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_all(&from, &to);
        } else {
            // Without its unit tests: those are the core's.
            let source = fs::read_to_string(from).expect("sources are text");
            fs::write(to, source.replace("#[cfg(test)]", "#[cfg(any())]")).expect("a file can be written");
        }
    }
}

/// The core's root, to be included: without what belongs to a crate, and with the places of its modules.
fn root(copy: &Path) -> String {
    let root = fs::read_to_string(copy.join("lib.rs")).expect("the core has a root");
    let mut included = String::new();
    for line in root.lines().filter(|line| !line.starts_with("//!") && !line.starts_with("#![")) {
        let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ");
        if let Some(name) = name.and_then(|name| name.strip_suffix(';')) {
            let file = copy.join(format!("{name}.rs"));
            let file = if file.exists() { file } else { copy.join(name).join("mod.rs") };
            included += &format!("#[path = {file:?}]\n");
        }
        included += line;
        included.push('\n');
    }
    included
}
