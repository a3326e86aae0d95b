//! A scenario that no live link can carry is refused before the link begins, with a remedy. `cargo
//! run -p falaj-control --example what_a_live_link_refuses`

use falaj_control::live_links::between_two_ends;

pub(crate) fn main() {
    let one = "[link.access]\nrate = \"10mbit\"\ndelay = \"20ms\"\n";
    for text in [one, &format!("{one}[link.core]\nrate = \"1gbit\"\n")] {
        let (scenario, _) = falaj_scenario::parse(text, "example.toml").expect("a valid scenario");
        match between_two_ends(&scenario) {
            Ok(links) => {
                println!("{} can run", links[0].name);
            }
            Err(why) => println!("{} links cannot: {why}", scenario.links.len()),
        }
        assert_eq!(between_two_ends(&scenario).is_ok(), scenario.links.len() == 1);
    }
}
