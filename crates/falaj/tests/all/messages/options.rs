//! Options with values that no command accepts, and files of the wrong kind.

use super::{ADAPTER, TRAFFIC, ends, refused};
use crate::common::{Ran, TENANTS, directory, falaj, file, program};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

const LINK: &str = "[link.a]\nrate = \"1mbit\"\n";

/// Returns a function that asserts the refusal of a command with further arguments.
fn of<'a>(command: &'a str) -> impl Fn(&str, &str) + 'a {
    move |words, said| {
        refused(&[command, words].join(" ").split_whitespace().collect::<Vec<_>>(), said);
    }
}

#[test]
fn batches_that_cannot_be() {
    let bench = of("aggregate bench");
    bench("--size 21B", "--size: a packet here has 22 B to 9 kB");
    bench("--size 9001B", "--size: a packet here has 22 B to 9 kB");
    bench("--bytes 65B", "--bytes: a batch that holds a packet of 64 B has 66 B to 64 KiB");
    bench("--bytes 65537B", "--bytes: a batch that holds a packet of 64 B has 66 B to 64 KiB");
    bench("--rates -1", "packets a second are a number up to 1e8: 200e3");
    bench("--cost 5us", "two times with a comma between: of a batch, of a packet: 11.4us,1.07us");
    bench(
        "--cost 5us,x",
        "`x` does not begin with a number; write a number and a unit, as in `40ms`",
    );
    bench("--each 0s", "--each 0s: it must be above zero; write `10s`, for instance");

    let tune = of("aggregate tune");
    tune("--delay 0s", "--delay must be above zero");
    tune("--delay 1ms --size 21B", "--size: a packet here has 22 B to 9 kB");
    for step in ["0", "nan", "inf"] {
        tune(&format!("--delay 1ms --step {step}"), "--step must be above zero");
    }
    tune("--delay 1ms --rates 0,0", "--rates: write at least one rate above zero");
    tune("--delay 1ms --percentile 89", "a percentile must be at least 90 and below 100");
    tune("--delay 1ms --each 0s", "--each 0s: it must be above zero");

    let run = |aggregate, said| refused(&["run", "--aggregate", aggregate, "--", "true"], said);
    run(
        "adaptive",
        "write the mean delay to keep, or the delay of a percentile of the packets: adaptive,",
    );
    run("adaptive,delay=0s", "a delay must be above zero; write the mean delay");
    run("62", "a batch of several packets that is not filled would stay for ever");
    run(
        "many",
        "write the number of packets of a full batch, and the event after which any other batch leaves",
    );
}

#[test]
fn plans_of_batches_that_cannot_be() {
    let plan = of("plan aggregate --per-batch 10us --rate");
    plan("0", "it must be above zero; write `800k`, for instance");
    plan("-1", "it must be finite and not negative");
    plan("inf", "it must be finite and not negative");
    plan("many", "not a number of packets a second; write `80000`, `800k` or `1.5M`");
    plan("1k --back many", "--back many: not a number of packets a second");
    for percentile in ["0", "100"] {
        plan(
            &format!("1k --percentile {percentile}"),
            "it must be above 0 and below 100, as in 99 or 99.9",
        );
    }
    for steps in ["0", "1001", "x"] {
        plan(
            &format!("1k --service erlang:{steps}"),
            "an Erlang service has 1 to 1000 steps: erlang:4",
        );
    }
    plan(
        "1k --service normal",
        "unknown distribution; it is one of exponential, deterministic, erlang:N such as erlang:4",
    );
    plan("1k --vms 0", "--vms is 0; it must be 1 or more");
    plan("1k --size 0", "--size is 0; a batch holds 1 packet or more");
    plan("1k --max-size 0", "--max-size is 0; a batch holds 1 packet or more");
    plan("1k --size 1000000000", "--size is 1000000000; a batch holds at most 100000 packets");
    plan("1k --vms 1000000", "--vms is 1000000; at most 10000 machines are simulated");
    plan(
        "1k --timeout 9us",
        "--timeout is 9.00 us, shorter than a batch of one packet takes to cross (10.0 us)",
    );
    plan("1k --delay 0s", "--delay 0s: it must be above zero; write `10s`, for instance");

    // The input is valid, but no size is stable: the exit status says so.
    let ran =
        falaj(&["plan", "aggregate", "--per-batch", "10us", "--rate", "1M", "--max-size", "5"]);
    let said = "with batches of 5 packets, the largest size: unstable: the load is 4.0000, and must be below 1";
    assert!(ran.status == Some(1) && format!("{}{}", ran.out, ran.err).contains(said), "{ran:?}");
}

#[test]
fn benches_of_nothing() {
    of("bench sim --scenario")(
        "none-such",
        "there is no case `none-such`; there are `fifo`, `drr`, ",
    );
    of("bench sim --only")(
        "none-such",
        "--only: no case has this text in its name; there are `fifo`, `drr`, ",
    );
    let sched = of("bench sched");
    sched("-n 0", "-n: one pair at least");
    sched(
        "--alg none-such",
        "no discipline is called `none-such`; `--list` names them, and a library is named by its path",
    );
    sched("--alg ./none-such.so", "`./none-such.so` cannot be loaded");
    sched(
        "--against no-such-program --alg drr --flows 2",
        "cannot run no-such-program: No such file",
    );
    sched("--against true --alg hfsc --flows 2", "dummynet's test program has no hfsc");
    sched("--against true --alg drr --flows 2", "true printed no time for null (exit status: 0)");
    // For any discipline, this script prints what dummynet's program prints without a discipline
    // (`NULL`).
    let theirs = directory().join("knows-no-discipline");
    std::fs::write(&theirs, "#!/bin/sh\necho main NULL n 1 2 time 0.1 12.3 qlen 0 1 >&2\n")
        .expect("a file can be written");
    std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let against = format!("--against {} --alg drr --flows 2 -n 1", theirs.display());
    sched(&against, "knows-no-discipline has no rr: it ran its list of packets instead");
    of("bench wfi --flowsets")(
        "1::600000",
        "18000000 packets are too many to keep; at most 4194304",
    );
    of("bench path --thousands")("0", "write `1` or more");

    let case = |name: &str, script: &str, traffic: Option<&str>| {
        let directory = directory().join(name);
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        std::fs::write(directory.join("tc.sh"), script).expect("a file can be written");
        if let Some(text) = traffic {
            std::fs::write(directory.join("traffic.toml"), text).expect("a file can be written");
        }
    };
    let kernel = of("bench kernel");
    case("kernel-bare", "", None);
    kernel("kernel-bare", "cannot read kernel-bare/traffic.toml: No such file");
    case("kernel-eth7", "tc qdisc add dev eth7 root netem delay 40ms\n", Some(TRAFFIC));
    kernel("kernel-eth7", "kernel-eth7: the script must set the device falaj0");
    case(
        "kernel-rules",
        "tc qdisc add dev falaj0 root netem delay 40ms\n",
        Some("[[rule]]\nto = \"falaj0\"\n"),
    );
    kernel(
        "kernel-rules",
        "this scenario has rules, and with this command all packets pass one link: leave [[rule]] out",
    );
    let two = "tc qdisc add dev falaj0 root netem delay 40ms\n\
               tc qdisc add dev eth7 root netem delay 40ms\n";
    case("kernel-two", two, Some(""));
    kernel(
        "kernel-two",
        "this scenario has 2 links, and with this command all packets pass one: keep only one [link.NAME]",
    );
}

#[test]
fn texts_that_are_none() {
    refused(
        &["fmt", "-", "--json"],
        "`-` prints the scenario: leave out `--json`, or add `--check`",
    );
    refused(&["fmt", "nowhere"], "cannot read nowhere: No such file or directory");
    for from in ["tc", "ipfw"] {
        refused(&["import", from, "nowhere"], "cannot read nowhere: No such file or directory");
    }
    refused(&["import", "tc", "-"], "no `tc qdisc add` makes a link\n --> standard input:1:1");
    for args in [&["import", "tc", "-"][..], &["import", "ipfw", "-"], &["fmt", "-"]] {
        let stdin = File::open(directory()).expect("it is there");
        let ran: Ran = program(args).stdin(stdin).output().expect("it starts").into();
        assert!(
            ran.status == Some(2) && ran.err.contains("cannot read standard input: Is a directory"),
            "{ran:?}"
        );
    }
    std::fs::write(directory().join("bytes.toml"), b"rate\n\xff").expect("a file can be written");
    for args in
        [["fmt", "bytes.toml"].as_slice(), &["import", "tc", "bytes.toml"], &["plan", "bytes.toml"]]
    {
        refused(args, "bytes.toml:2:1: the byte 0xff is not a character: a text is in UTF-8");
    }
    refused(&["traffic-end"], "this command is for falaj's own use");
    refused(&["sweep", "merge"], "<FILES>...");
    refused(&["sweep", "merge", "nowhere"], "cannot read nowhere: No such file");
    let sweep = file("no-sweep.toml", LINK);
    refused(&["sweep", "merge", sweep], "no-sweep.toml, line 1: this is not a sweep of falaj");
    refused(
        &["sweep", "plan", sweep, "--over", "nobody=1"],
        "`nobody`: no table of the scenario has such a key",
    );
}

#[test]
fn simulations_that_cannot_be() {
    let plain = file("options-plain.toml", &format!("{LINK}{TRAFFIC}"));
    let sim = |words, said| of(&format!("sim {plain}"))(words, said);
    sim("--duration 0s", "--duration 0s: it must be above zero; write `10s`, for instance");
    sim(
        "--warm-up 2s --duration 2s",
        "--warm-up 2s is not shorter than the run of 2s: write a shorter --warm-up or a longer \
         --duration",
    );
    sim("--warm-up long", "write a number and a unit, as in `40ms`; or write `auto` or `none`");
    sim(
        "--packets x.txt",
        "--packets x.txt: the name's ending must be that of a format: `*.csv` or `*.parquet` or `*.pcapng`",
    );
    refused(
        &["sim", plain, "--until", "nobody.loss ±1%"],
        "--until `nobody.loss ±1%`: there is no flow `nobody`; there are `all`, `all down`",
    );
    refused(&["sim"], "<FILE>");
    let bare = file("options-bare.toml", LINK);
    refused(
        &["sim", bare],
        "options-bare.toml has no [traffic.NAME]: there is nothing to simulate",
    );

    let more = format!("{LINK}{TRAFFIC}{}", TRAFFIC.replace("traffic.x", "traffic.y"));
    refused(
        &["compare", plain, file("options-more.toml", &more)],
        "one scenario has 1 sources and the other 2: scenarios with different arrivals cannot be \
         compared in pairs",
    );
    let other =
        format!("{LINK}{}", TRAFFIC.replace("500B", "600B").replace("traffic.x", "traffic.y"));
    refused(
        &["compare", plain, file("options-other.toml", &other)],
        "source `x` of one scenario and `y` of the other do not send alike: scenarios with \
         different arrivals cannot be compared in pairs.",
    );
}

/// A place that cannot be written is detected before the simulation. Results of the simulation are
/// printed even if writing the files fails later.
#[test]
fn places_that_cannot_be_written() {
    let plain = file("places.toml", &format!("{LINK}{TRAFFIC}"));
    let _ = file("places-file", "");
    let sim = |option: &str, place: &str, said: &str| {
        refused(&["sim", plain, "--duration", "10ms", option, place], said);
    };
    for option in ["--packets", "--flows"] {
        sim(option, "no-place/x.csv", "cannot write no-place/x.csv: No such file");
    }
    sim("--trace", "no-place/x.json", "cannot write no-place/x.json: No such file");
    sim("--flent", "no-place/x.flent.gz", "cannot write no-place/x.flent.gz: No such file");
    sim("--plot", "places-file/x", "cannot make the directory places-file/x: ");
    sim("--plot", "x.svg", "--plot x.svg: there are several pictures; name a directory");
    refused(
        &["reproduce", "zhang", "--out", "places-file/x"],
        "cannot make the directory places-file/x: ",
    );
    for (command, option) in [("sim", "--plot"), ("plan", "--svg")] {
        ends(
            &[command, plain, option, "x.gif"],
            &format!("{option} x.gif: pictures are written as `*.svg`, `*.png` and `*.pdf`;"),
        );
    }
    assert!(!directory().join("x.gif").exists() && !directory().join("x.svg").exists());
    let full = directory().join("full.csv");
    let _ = std::fs::remove_file(&full);
    std::os::unix::fs::symlink("/dev/full", &full).expect("a link can be made");
    let ran = falaj(&["sim", plain, "--duration", "10ms", "--flows", "full.csv"]);
    assert!(ran.status == Some(2) && ran.err.contains("cannot write full.csv"), "{ran:?}");
    assert!(ran.out.contains("delay mean"), "{ran:?}");
}

#[test]
fn plans_that_cannot_be() {
    refused(&["plan"], "<FILE>");
    let plain = file("plan-plain.toml", &format!("{LINK}{TRAFFIC}"));
    for (option, value) in [("--what-if", "nobody.rate=1mbit"), ("--requires", "nobody.delay=3ms")]
    {
        let said = format!(
            "{option} {value}: no table of the scenario has such a key; its tables are `link.a`, `traffic.x`"
        );
        refused(&["plan", plain, option, value], &said);
    }
    refused(&["plan", plain, "--need", "x.delay=3ms"], "`--need` is now called `--requires`");
    refused(
        &["plan", plain, "--what-if", "a.need.delay=1ms"],
        "--what-if a.need.delay=1ms: the key `need` is now called `requires`",
    );
    refused(
        &["plan", plain, "--what-if", "a.rate=much"],
        "error: with --what-if a.rate=much: `rate`: `much` does not begin with a number",
    );
    refused(
        &["plan", "fits", plain, "--more", "nobody"],
        "--more: no link has a flow nobody of its own",
    );
    // Neither a link's implicit flow nor a flow of one direction can be copied.
    refused(
        &["plan", "fits", plain, "--more", "all"],
        "--more: there is no [link.a.flow.all], so there is nothing to",
    );
    let upwards = format!(
        "{LINK}[link.a.up.flow.x]\nmatch = \"udp\"\n[link.a.up.flow.rest]\nmatch = \"any\"\n"
    );
    refused(
        &["plan", "fits", file("plan-upwards.toml", &upwards), "--more", "x"],
        "--more: there is no [link.a.flow.x], so there is nothing to copy",
    );
    let served = file("plan-served.toml", ADAPTER);
    assert!(
        falaj(&["plan", "fits", served, "--more", "calm"])
            .out
            .ends_with("room for 1024 and more flows like calm\n")
    );

    let wheels = format!(
        "{LINK}scheduler = {{ kind = \"timer-wheels\" }}\n[link.a.flow.x]\nmatch = \"udp\"\nweight = 1\n\
         [link.a.flow.y]\nmatch = \"any\"\nweight = 1\n"
    );
    ends(
        &["plan", file("plan-wheels.toml", &wheels), "--svg", "never.svg"],
        "--svg: no flow has a guaranteed rate, so there is nothing to draw",
    );
    for option in ["--svg", "--saihu"] {
        ends(
            &["plan", plain, option, "no-such-directory/x.svg"],
            "cannot write no-such-directory/x.svg: No such file",
        );
    }
    let flow = |name, path| {
        let sent = "\"arrival_curve\": { \"bursts\": [\"1B\"], \"rates\": [\"1bps\"] }";
        format!("{{ \"name\": \"{name}\", \"path\": {path}, {sent} }}")
    };
    let server = |name| {
        let curve = "\"service_curve\": { \"latencies\": [\"1us\"], \"rates\": [\"1Mbps\"] }";
        format!("{{ \"name\": \"{name}\", {curve} }}")
    };
    let (there, back) = (flow("f", r#"["a", "b"]"#), flow("g", r#"["b", "a"]"#));
    let circle = format!(
        "{{ \"network\": {{ \"name\": \"circle\", \"multiplexing\": \"ARBITRARY\" }}, \"servers\": [{}, {}], \"flows\": [{there}, {back}] }}",
        server("a"),
        server("b")
    );
    refused(
        &["plan", "saihu", file("circle.json", &circle)],
        "circle.json: flows lead in a circle through a, b, and no bound was found",
    );
}

#[test]
fn live_links_that_cannot_be() {
    let plain = file("live-plain.toml", LINK);
    let hosts = format!("{LINK}[host.x]\nlink = \"a\"\n[host.y]\nlink = \"a\"\n");
    let hosts = file("live-hosts.toml", &hosts);
    let run = |words: &str, said: &str| {
        let words = words.split_whitespace();
        refused(&["run"].into_iter().chain(words).chain(["--", "true"]).collect::<Vec<_>>(), said);
    };
    let of_hosts = |words: &str, said| run(&format!("{hosts} {words}"), said);
    for option in ["--peer true", "--netns x"] {
        of_hosts(
            option,
            "--peer, --wait and --netns are for a link between two ends; this scenario has hosts: write --in",
        );
    }
    of_hosts("--internet pasta", "--internet: a scenario with hosts has no internet access");
    of_hosts(
        "--aggregate 62,idle",
        "--aggregate is for a link between two ends; this scenario has hosts",
    );
    of_hosts("--host z", "--host: there is no host `z`; there are x, y");
    of_hosts("--in z:true", "--in: there is no host `z`; there are x, y");
    of_hosts("--in x", "write the host, a colon and the command: `b:iperf3 -s`");
    of_hosts("--in x:true", "--in: a command runs in `x` already; let one `sh -c` start both");
    let of_two = |words: &str, said| run(&format!("{plain} {words}"), said);
    of_two(
        "--host x",
        "--host and --in are for a scenario with hosts, each [host.NAME]; this one has two ends",
    );
    of_two(
        "--netns x --internet host",
        "--internet: with --netns the far end has the internet access of its namespace",
    );
    of_two("--when-full often", "a packet that finds its queue full may `drop` or `wait`");
    of_two("--timer often", "a timer is one of spin, hybrid, sleep");

    refused(
        &["bridge", "nfqueue:7", "vhost:never.sock", "--rate", "1mbit"],
        "packets of a firewall queue continue on their own path and reach no other end: give two queues, one for each direction",
    );

    let relay = ["relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
    let relay = |words: &[&str], said: &str| refused(&[&relay[..], words].concat(), said);
    for (condition, said) in [
        ("loss", "a condition compares: `release.p99 > 200us`"),
        ("loss > 5", "`5` is not a share: 0.5%"),
        ("loss > 101%", "`101%` is not a share: 0.5%"),
        ("dropped > few", "`few` is not a number of packets: 10"),
        ("rate > few", "`few` does not begin with a number"),
    ] {
        relay(&["--rate", "1mbit", "--fail-if", condition], said);
    }
    relay(&["--rate", "1mbit", "--idle", "0s"], "--idle 0s: it must be above zero");
    let vlan =
        format!("{LINK}[link.a.flow.x]\nmatch = \"vlan 5\"\n[link.a.flow.y]\nmatch = \"any\"\n");
    relay(
        &[file("live-vlan.toml", &vlan), "--fail-if", "loss of nobody > 1%"],
        "warning: flow `x` matches `vlan 5`, but a relay knows only addresses, protocol, ports and length\nfalaj: `loss",
    );
}

/// Virtual machines whose program, kernel or files are missing or wrong.
#[test]
fn guests_that_cannot_be() {
    let at = tempfile::tempdir().expect("a directory can be made");
    let [path, root] = ["path", "root"].map(|name| at.path().join(name));
    let refused = |said: &str| {
        let guests = format!("--guests={}", root.display());
        let ran: Ran = program(&["reproduce", "xen", &guests])
            .env("PATH", &path)
            .output()
            .expect("it starts")
            .into();
        assert!(
            ran.status == Some(2) && ran.out.is_empty() && ran.err.contains(said),
            "{said}\n{ran:#?}"
        );
    };
    let put = |from: &str, to: PathBuf| {
        std::fs::create_dir_all(to.parent().expect("it has one")).expect("a directory can be made");
        let _ = std::fs::remove_file(&to);
        std::os::unix::fs::symlink(from, to).expect("a link can be made");
    };
    refused(
        "cannot start qemu-system-x86_64 (No such file or directory (os error 2)): install the package",
    );
    put("/bin/true", path.join("qemu-system-x86_64"));
    refused(&format!(
        "there is no kernel with its modules (boot/vmlinuz-*, lib/modules) below {}: ",
        root.display()
    ));
    put("/dev/null", root.join("lib/modules/1/kernel/none"));
    std::fs::create_dir(root.join("boot")).expect("a directory can be made");
    std::fs::write(root.join("boot/vmlinuz-1"), "").expect("a file can be written");
    refused(&format!(
        "there is no bin/busybox below {}: install the package busybox-static",
        root.display()
    ));
    put("/bin/false", root.join("bin/busybox"));
    refused("bin/busybox makes no cpio archives: take Debian's busybox-static");
    put("/bin/true", root.join("bin/busybox"));
    refused("guest 1 did not begin; its console ends with:\n");
}

/// The exit status is that of the error, even if the message cannot be written.
#[test]
fn standard_error_without_a_reader() {
    for args in [
        &["plan", "nowhere"][..],
        &["plan", file("unheard.toml", &TENANTS.replace("mbit", "")), "--json"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ran: Ran =
            program(args).stderr(Stdio::from(writer)).output().expect("it starts").into();
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{args:?}");
    }
}
