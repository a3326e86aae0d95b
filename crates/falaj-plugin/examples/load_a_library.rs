//! Loads the discipline of a shared library, and prints its description, or why it is not valid.
//! `cargo run -p falaj-plugin --example load_a_library -- examples/plugins/c/longest.so`

use std::path::Path;

pub(crate) fn main() {
    let path = std::env::args().nth(1).unwrap_or_else(|| "nowhere.so".to_owned());
    match falaj_plugin::load(Path::new(&path), &path) {
        Ok(loaded) => println!("{path}: {loaded:?}"),
        Err(why) => println!("{}\n  {}", why.what, why.help),
    }
}
