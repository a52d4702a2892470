use super::*;

const TRACE: &str = "\
job_id,submit_s,duration_s,gpus,nodes,vc,user,type,status
0,0,100,8,,a,,train,
1,10,100,16,,a,,train,
2,20,50,1,,b,,train,
3,20,1000,1,,a,,train,
";

fn waits(text: &str, nodes: u32, kind: ReplayPolicy) -> ReplayFigures {
    replay(&read(text).unwrap(), nodes, kind, &|| 0).unwrap()
}

#[test]
fn strict_turns_stop_everybody_and_backfill_nobody() {
    let fifo = waits(TRACE, 2, ReplayPolicy::Fifo);
    // The large one starts at 100 and ends at 200, the small ones start then.
    assert_eq!((fifo.max_wait_16plus_s, fifo.max_wait_s), (90, 180));
    let total = f64::from(90 + 180 + 180);
    assert!((fifo.mean_wait_s - total / 4.0).abs() < 1e-9, "{fifo:?}");
    assert_eq!(fifo.peak_queue, 3);
    let backfill = waits(TRACE, 2, ReplayPolicy::Backfill);
    // The small ones start at once, and the large one when the last of them has ended.
    assert_eq!((backfill.max_wait_16plus_s, backfill.p50_wait_s), (1010, 0));
    assert!((backfill.mean_jct_s - f64::from(100 + 1110 + 50 + 1000) / 4.0).abs() < 1e-9);
    assert_eq!(backfill.peak_queue, 1);
}

const DAY_S: u64 = 24 * 3600;

/// A gang that needs everything among small ones that come for ever.
fn crowded() -> String {
    let mut text = "submit_s,duration_s,gpus,user\n0,5,16,x\n1,5,16,x\n".to_owned();
    for number in 0..30_000 {
        text += &format!("{},60,1,u{}\n", 4 * number, number % 5);
    }
    text
}

#[test]
fn a_large_gang_waits_no_longer_than_it_takes_to_empty_what_is_kept_for_it() {
    let backfill = waits(&crowded(), 2, ReplayPolicy::Backfill);
    assert!(backfill.max_wait_16plus_s > DAY_S + 60, "{backfill:?}");
    let kept = waits(&crowded(), 2, ReplayPolicy::Default);
    assert!(kept.max_wait_16plus_s <= DAY_S + 60 + 5, "{kept:?}");
}

#[test]
fn users_share_what_there_is() {
    let mut text = "submit_s,duration_s,gpus,user\n".to_owned();
    for number in 0..64 {
        text += &format!("0,{},1,many\n", 100 + number);
    }
    text += "1,100,1,few\n";
    let jobs = read(&text).unwrap();
    let of = |kind| replay(&jobs, 1, kind, &|| 0).unwrap();
    // Behind 64 others of one user, the one who came last waits for one of them, not for 57.
    assert!(of(ReplayPolicy::Default).mean_wait_s < of(ReplayPolicy::Backfill).mean_wait_s);
}

#[test]
fn what_cannot_run_is_counted_and_what_is_no_trace_is_named() {
    let figures = waits(TRACE, 1, ReplayPolicy::Default);
    assert_eq!((figures.jobs, figures.refused), (3, 1));
    let table = [
        (
            "",
            "the heading has no column submit_s; the first line must name job_id,submit_s,duration_s,gpus,...",
        ),
        (
            "submit_s,duration_s,gpus\n",
            "the trace has no job that asks for GPUs",
        ),
        (
            "submit_s,duration_s,gpus\n1,2,3\n1,x,3\n",
            "line 3: duration_s is \"x\"; use seconds as a whole number",
        ),
        (
            "submit_s,duration_s,gpus\n1,2\n",
            "line 2: gpus is \"\"; use a whole number of devices",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(read(text).unwrap_err().to_string(), expected);
    }
    let quoted = read("submit_s,name,duration_s,gpus\n1,\"a,b\",2,3\n").unwrap();
    assert_eq!((quoted[0].duration_s, quoted[0].gpus), (2, 3));
    let jobs = read(TRACE).unwrap();
    let none = replay(&jobs, 0, ReplayPolicy::Fifo, &|| 0);
    assert_eq!(none.unwrap_err(), ReplayError::Nodes(0));
}

#[test]
fn a_gang_is_overdue_the_later_the_more_of_the_quota_it_asks_for() {
    let turns = Turns::default();
    let hours = |is_wide, share| turns.overdue_ms(is_wide, share).map(|ms| ms / 3_600_000);
    assert_eq!(hours(false, (1, 768)), Some(24));
    assert_eq!(hours(true, (16, 768)), Some(1));
    assert_eq!(hours(true, (128, 768)), Some(4));
    assert_eq!(hours(true, (768, 768)), Some(24));
    assert_eq!(Turns::backfill().overdue_ms(true, (16, 768)), None);
}
