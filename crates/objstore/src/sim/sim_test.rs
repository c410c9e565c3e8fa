//! Tests the simulation without servers: its threads and tasks only sleep.

use super::*;

/// A history of threads and tasks that sleep for times chosen by the seed, and add entries to the trace.
fn history() {
    let threads: Vec<_> = (0..3).map(|name| spawn("sleeper", move || sleeper(name))).collect();
    let slept: u64 = threads.into_iter().map(|thread| thread.join()).sum();
    note(&format!("slept {slept}"));
}

fn sleeper(name: u64) -> u64 {
    let mut slept = 0;
    for _ in 0..20 {
        let task = scheduled(tokio::time::sleep(Duration::from_millis(below(50))));
        let task = handle().unwrap().spawn(task);
        block_on(task).unwrap();
        let pause = below(20);
        sleep(Duration::from_millis(pause));
        slept += pause;
        note(&format!("{name} slept {pause}"));
    }
    slept
}

#[test]
fn one_seed_gives_one_history_and_another_seed_another() {
    let start = std::time::Instant::now();
    let of = |seed| run(seed, true, history);
    for seed in 0..20 {
        assert_eq!(of(seed), of(seed));
        assert_ne!(of(seed).hash, of(seed + 1).hash);
    }
    let virtual_time = of(0).lines.last().unwrap().trim().split('.').next().unwrap().parse::<u64>().unwrap();
    assert!(virtual_time > 300, "{virtual_time}");
    assert!(start.elapsed() < Duration::from_secs(20), "nobody waits for real time");
}

#[test]
fn a_panic_of_a_thread_is_the_failure_of_its_history_and_ends_the_others() {
    let ended = run(7, false, || {
        spawn("sleeper", || sleep(Duration::from_secs(3600)));
        let failing = spawn("failing", || std::panic::resume_unwind(Box::new("on purpose")));
        failing.join();
    });
    assert_eq!(ended.failure.as_deref(), Some("failing: on purpose"));
}
