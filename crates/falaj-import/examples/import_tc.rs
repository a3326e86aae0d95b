//! Commands of tc made into a scenario. `cargo run -p falaj-import --example import_tc`

use falaj_import::Host;

pub(crate) fn main() {
    let script = "tc qdisc add dev eth0 root netem delay 40ms rate 10mbit loss 1%\n";
    let imported = falaj_import::tc(script, "delay.sh", &Host::default()).expect("it has an equal");
    println!("{}", imported.scenario);
    let (scenario, _) =
        falaj_scenario::parse(&imported.scenario, "delay.toml").expect("a scenario");
    assert_eq!(scenario.links.len(), 1);
}
