//! Compares the kernel's TCP with the simulated TCP, in two cells of the grid of `reproduce tcp`.

use crate::{falaj, trial};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("tcp::the_simulation_is_the_kernel", simulation_is_the_kernel)]
}

/// Two cells with tail drop. In one, the queue holds the packets of one round trip. In the other,
/// it holds two packets, so that about one packet in seven is lost.
fn simulation_is_the_kernel() {
    let only = "reno-10mbit-10ms,cubic-1mbit-10ms";
    let args = ["reproduce", "tcp", "--quick", "--only", only, "--json"];
    let ran = falaj(&args);
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let cells = told["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2, "{told:#}");
    // Each cell has three comparisons: goodput, mean delay, and 99th percentile of the delay.
    assert_eq!(told["summary"]["reproduced"], 6, "{told:#}");
    assert_eq!(told["summary"]["comparisons"], 6, "{told:#}");
    for cell in cells {
        for side in ["kernel", "simulated"] {
            let number = |of: &serde_json::Value| of.as_f64().expect("a number");
            let used = number(&cell[side]["goodput"]) / number(&cell["cell"]["rate"]);
            // 1,448 of 1,514 bytes are payload.
            assert!((0.7..0.957).contains(&used), "{cell:#}");
            assert!(cell[side]["offered"].as_u64().expect("a number") > 500, "{cell:#}");
        }
    }
}
