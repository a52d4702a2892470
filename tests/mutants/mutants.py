"""The bugs that the simulation of whole clusters has to catch: each is a text of the product that is put in
place of another one. `run.py` puts them in, one after the other.

Not among them is what other rules make harmless as long as they hold: a run placed again with the same
tasks (the second entry changes nothing), a machine that would end what others were promised (nothing of that
is on cells that who asks is bound to), a reservation of the agent's earlier life that is launched under a
lease (Go needs an answer, and whoever answers is not silent), a cell that was released and is had again by an
older word (mostly it is given back before anything else is heard). Unit tests have those."""

LEDGER = "control/src/ledger/"
LEADER = "control/src/coordinator/"
LEASE = "control/src/lease/"
VC = "control/src/vc/"
RAFT = "consensus/src/replica/"
MEMBER = "control/src/member/"
SEARCH = "control/src/request/search.rs"
CLUSTER_GROUP = "control/src/answers/cluster/"

# All that a leader wants committed is asked for twice.
TWICE = (
    "control/src/groups/leading.rs",
    "                    Ok(entry) => self.propose_own(group, entry),\n",
    "                    Ok(entry) => {\n"
    "                        self.propose_own(group, entry.clone());\n"
    "                        self.propose_own(group, entry);\n"
    "                    }\n")

# name: (file, the text as it is, the bug), and as many times more as the bug is in several places
MUTANTS = {
    "the node ledger's writes are dropped": (
        LEDGER + "durable.rs", "out.push(LedgerOutput::Persist(all));", "drop(all);"),
    "orders are carried out before they are on disk": (
        LEDGER + "orders.rs",
        "        if !work.changes.is_empty() {\n            self.persist(work.changes, out);\n        }\n",
        "        out.extend(std::mem::take(&mut work.steps).into_iter().map(LedgerOutput::Step));\n"
        "        if !work.changes.is_empty() {\n            self.persist(work.changes, out);\n        }\n"),
    "orders of an agent's earlier life are admitted": (
        LEDGER + "admit.rs",
        "order.epoch != self.identity.epoch || order.start != self.identity.start",
        "order.epoch != self.identity.epoch"),
    "fences are not compared": (
        LEDGER + "admit.rs", "if order.fence <= known {", "if order.fence.generation < known.generation {"),
    "reservations do not end by themselves": (
        LEDGER + "orders.rs", "self.now.plus_millis(ttl_ms)", "self.now.plus_millis(ttl_ms * 1_000)"),
    "who has to give way is told at Reserve": (
        LEDGER + "orders.rs",
        "                let reply = self.reserve(&request, port_is_free);\n",
        "                let reply = self.reserve(&request, port_is_free);\n"
        "                if matches!(reply, OrderOutcome::Granted(_)) {\n"
        "                    self.evict(victims.iter().cloned().collect(), 1_000, &mut work);\n"
        "                }\n"),
    "a claim is taken over before those who had it are gone": (
        LEDGER + "claims.rs", "if self.of_run(&run).all(is_clear) {", "if self.of_run(&run).all(|grant| is_clear(grant) || grant.claims()) {"),
    "devices are free as soon as a task has ended, its processes or not": (
        LEDGER + "grant.rs",
        "!self.claims() && !matches!(self.state, GrantState::Ended { gone: true, .. })",
        "!self.claims() && !matches!(self.state, GrantState::Ended { .. } | GrantState::Draining)"),
    "what was given up while the disk refused is created": (
        LEDGER + "mod.rs",
        "grant.is_some_and(|grant| matches!(grant.state, GrantState::Held(_)))",
        "grant.is_none_or(|_| true)"),
    "what is told to stop is free at once": (
        LEDGER + "orders.rs",
        "                    grant.state = GrantState::Draining;\n                    work.steps.push(ExecutorStep::Stop {",
        "                    self.forget(&uid);\n                    work.steps.push(ExecutorStep::Stop {"),
    "what an earlier boot has set aside counts by its clock": (
        LEDGER + "mod.rs", "*expires = latest.min(*expires);", "*expires = (*expires).max(*expires);"),
    "a stop is answered before the processes are gone": (
        LEDGER + "observe.rs",
        "            GrantState::Ended { gone, .. } => {\n                *gone = true;",
        "            GrantState::Ended { gone, .. } => {\n                *gone = false;"),
    "Go when the first task is ready": (
        LEADER + "gangs/steer.rs", "        if all && live > 0 {", "        if ready > 0 {"),
    "Go when the last tasks are still on their way": (
        LEADER + "gangs/steer.rs",
        "            matches!(standing, Some(TaskStanding::Ready | TaskStanding::Running))",
        "            matches!(standing, Some(TaskStanding::Starting | TaskStanding::Ready | TaskStanding::Running))"),
    "a leader that does not reach everybody has ends what runs": (
        LEADER + "gangs/steer.rs",
        "            GangPhase::Going => self.steer_going(&current, parts),",
        "            GangPhase::Going if !parts.liveness.unreachable().is_empty() => {\n"
        "                self.steer_live(&current, OrderKind::Stop, Some(Cause::NodeSilent), parts)\n"
        "            }\n"
        "            GangPhase::Going => self.steer_going(&current, parts),"),
    "what runs ends when its machine's devices are looked at": (
        LEDGER + "mod.rs",
        "                self.capacity = capacity;\n",
        "                self.capacity = capacity;\n"
        "                out.extend(self.grants.keys().map(|uid| {\n"
        "                    LedgerOutput::Step(ExecutorStep::Stop {\n"
        "                        uid: uid.clone(),\n"
        "                        cause: Cause::PortConflict,\n"
        "                        grace_ms: 0,\n"
        "                    })\n"
        "                }));\n"),
    "a container is made beside the one of the round before": (
        LEDGER + "keep.rs", "if grant.clears.is_none() && *phase != HeldPhase::Absent {",
        "if grant.clears.is_some() && *phase != HeldPhase::Absent {"),
    "nobody waits for what was started on machines that cannot be reached": (
        LEADER + "gangs/steer.rs", "if current.gang.phase == GangPhase::Voiding || !current.has_started() {", "{",
        VC + "apply.rs", "Phase::Stopping { .. } => !current.has_started(),", "Phase::Stopping { .. } => true,"),
    "a leader leads before its term's first entry is applied": (
        LEADER + "leadership.rs", "        self.term = Some(term);\n        self.leads = false;",
        "        self.term = Some(term);\n        self.leads = true;"),
    "orders are not sent again": (
        LEADER + "gangs/link.rs", "(!self.answered).then(|| self.sent_at.plus_millis(pause))",
        "(!self.answered).then(|| self.sent_at.plus_millis(pause * 10_000))"),
    "pauses go by the time of day alone": (
        LEADER + "planner/pauses.rs", "context.now.plus_millis(left.min(pause.for_ms))",
        "context.now.plus_millis(left)"),
    "all jobs are started anew without waiting for silent nodes": (
        LEADER + "gangs/restart.rs",
        "partition == Partition::Overlap && unreachable.contains(on)",
        "partition != Partition::Hold && unreachable.contains(on)"),
    "exits are not recorded": (
        LEADER + "gangs/steer.rs",
        "Some(TaskStanding::Ended(verdict)) => TaskEnd::Exit(verdict.clone()),",
        "Some(TaskStanding::Ended(_)) => continue,"),
    "a leader counts silence from before its election": (
        LEASE + "watch.rs",
        "        let mut hearing = Hearing::new(now);\n        for node in nodes {\n            hearing.heard(now, &node);",
        "        let mut hearing = Hearing::new(Time::default());\n        for node in nodes {\n            hearing.heard(Time::default(), &node);"),
    "tasks are lost at half of their lease": (
        LEASE + "mod.rs", "const LOST_PERCENT: u64 = 103;", "const LOST_PERCENT: u64 = 50;"),
    "what the other leader does not answer is taken for silence": (
        LEASE + "watch.rs", "silent == Some(true) && self.hearing", "silent != Some(false) && self.hearing"),
    "tasks hold for longer than their lease": (
        LEASE + "holder.rs", "|lease| sent.plus_millis(lease.wire_ms())", "|lease| sent.plus_millis(2 * lease.wire_ms())"),
    "a task's first lease is forgotten": (
        LEASE + "holder.rs", "task.ends = Some(since.plus_millis(lease.wire_ms()));",
        "task.ends = Some(since.plus_millis(1_000 * lease.wire_ms()));"),
    "tasks are told to end before their lease is over": (
        LEASE + "holder.rs", "GRACE_MS * 1000", "GRACE_MS * 1500"),
    "leases are renewed by their virtual cluster's leader alone": (
        LEASE + "holder.rs", "        if missed {", "        if missed && every == 0 {"),
    "leases are renewed by whoever is asked": (
        "control/src/groups/mod.rs",
        "        let ticket = self.ticket(PendingCall::Reading(reading));\n        self.give(HostInput::Read { group, ticket });",
        "        if heard.is_some() {\n            return self.read(group, reading);\n        }\n"
        "        let ticket = self.ticket(PendingCall::Reading(reading));\n        self.give(HostInput::Read { group, ticket });"),
    "reports are not heard": (
        "control/src/groups/words.rs", "        self.feed(group, coordinator::CoordinatorInput::Tell { node, tell });",
        "        if !matches!(tell, Tell::Report(_)) {\n            self.feed(group, coordinator::CoordinatorInput::Tell { node, tell });\n        }"),
    "a snapshot is not taken over": (
        "control/src/groups/machine.rs",
        "                let restored = VcState::restore(snapshot);\n                **state = restored.map_err(|error| RestoreError(error.to_string()))?;",
        "                let restored = VcState::restore(snapshot);\n                restored.map_err(|error| RestoreError(error.to_string()))?;\n                **state = VcState::default();"),
    "a name is given twice": (
        VC + "apply.rs", "if let Some(known) = self.job_id(&job.key) {",
        "if let Some(known) = self.job_id(&job.key).filter(|it| it.0 == 0) {"),
    "what is told to stop counts as gone": (
        LEADER + "gangs/steer.rs",
        "Some(TaskStanding::Gone) if of_phase && kind != OrderKind::Launch => TaskEnd::Gone,",
        "Some(TaskStanding::Gone | TaskStanding::Stopping) if of_phase && kind != OrderKind::Launch => TaskEnd::Gone,"),
    "a gang may start in a round that is void": (
        VC + "apply.rs",
        "                self.expect(run, |phase| matches!(phase, GangPhase::Placed { .. }))?;\n                self.change(run.gang.job, |job| job.go(run, *limit_s, *at_ms))",
        "                self.change(run.gang.job, |job| job.go(run, *limit_s, *at_ms))",
        # A leader would not ask for it otherwise.
        *TWICE),
    "a round is used again": (
        VC + "ending.rs", "gang.round += 1;", "gang.round += 0;"),
    "a gang has ended when its first task has": (
        VC + "ending.rs", "        if live || !gang.is_live() {", "        if !gang.is_live() {"),
    "a log says what is not on its disk": (
        RAFT + "ready.rs", "            _ if durable => self", "            _ if durable && ready == 0 => self"),
    "votes and terms are not written": (
        RAFT + "ready.rs",
        "            sink.kept\n                .push(StoredChange::Promise(self.group, self.id, promise(&hard)));",
        "            drop(hard);"),
    "entries are not written": (
        RAFT + "ready.rs",
        "            sink.kept.push(StoredChange::Entries(\n                self.group,\n                first.index,\n                bytes.collect(),\n            ));",
        "            drop(bytes);\n            let _ = first;"),
    "an empty disk is taken for the one that was lost": (
        "consensus/src/host.rs", "store == self.options.store && !buried && !replaced", "!buried && !replaced"),
    "after a recovery tasks are named as before": (
        LEADER + "gangs/ask.rs",
        'later => attempt_uid(&format!("{job}/{later}"), &current.run, task),',
        "_ => attempt_uid(job, &current.run, task),"),
    "after a recovery nothing that runs is waited for": (
        LEADER + "planner/mod.rs",
        "if context.is_recovered() && liveness.has_strays(nodes) {",
        "if context.options.generation > 99 && liveness.has_strays(nodes) {"),
    "a group that has a successor goes on": (
        "control/src/groups/mod.rs",
        "            self.give(HostInput::Succeeded { group });\n", "            drop(group);\n",
        # Whoever began the other one says so as well.
        "consensus/src/host.rs",
        "let replica = if has_ended { ReplicaId::EVERY } else { to };",
        "let replica = if has_ended { to } else { to };"),
    "a recovered group begins without what was not applied": (
        RAFT + "mod.rs",
        "                let output = heir.apply(entry.index, &entry.data);",
        "                let output = heir.apply(entry.index, &[]);"),
    "a cell that another virtual cluster has is bound": (
        "control/src/cluster/binding.rs",
        "if !claim.meets(&own) && !others.any(|(_, bound)| bound.meets(claim)) {",
        "if !claim.meets(&own) && !others.any(|(_, bound)| bound.meets(claim) && bound.is_empty()) {"),
    "a cell is released while a gang is on it": (
        VC + "own_cells.rs", "if !self.in_use(cells).is_empty() {", "if self.in_use(cells).is_empty() && cells.is_empty() {",
        # A leader would not ask for it otherwise.
        LEADER + "bindings/binder.rs", "surplus.without(&state.in_use(&surplus))", "surplus"),
    "a cell that is bound again keeps its epoch": (
        "control/src/cluster/binding.rs", "own.extend(&claim.in_epoch(index));", "own.extend(&claim.in_epoch(1));"),
    "what is bound to nobody is placed on": (
        "placement/src/cells/refresh.rs", ".filter(|quota| quota.is_bound) else {", ".filter(|quota| quota.level < 99) else {",
        VC + "own_cells.rs", "!placed.is_within || placed", "placed.at_ms > 0 || placed",
        LEADER + "gangs/ask.rs", "placement.leaves.iter().map(epoch).collect::<Option<_>>()?",
        "placement.leaves.iter().map(|leaf| epoch(leaf).unwrap_or(1)).collect::<Vec<u64>>()"),
    "gangs that lost their promise never give way": (
        LEADER + "mod.rs", "            gangs.vacate(&runs, &mut parts);\n", ""),
    "what is too much is kept": (
        LEADER + "bindings/binder.rs", "if !surplus.is_empty() {", "if surplus.nodes().count() > 9 {"),
    "the cluster's former group goes on": (
        "control/src/groups/members.rs",
        "filter(|_| self.cluster_voters > 0)", "filter(|_| self.cluster_voters > 99)",
        # Whoever began the other one says so as well.
        "consensus/src/host.rs",
        "let replica = if has_ended { ReplicaId::EVERY } else { to };",
        "let replica = if has_ended { to } else { to };"),
    "what others know of documents is not brought to a recovered cluster": (
        "control/src/cluster/replacement.rs",
        "find(|edit| edit.id == *id);", "find(|edit| edit.id == *id && edit.at_ms == 0);"),
    "what others were told is not brought to a recovered cluster": (
        "control/src/cluster/replacement.rs",
        "told.version > self.map_version)", "told.version > self.map_version && told.version == 0)"),
    "a recovered cluster goes by its copy alone in who has a cell": (
        "control/src/cluster/binding.rs",
        "filter(|_| self.unheard.contains(vc))", "filter(|_| self.unheard.len() > 99)"),
    "a recovered cluster binds cells before all have said which they have": (
        "control/src/cluster/binding.rs",
        "claims.filter(|_| self.unheard.is_empty())", "claims.filter(|_| self.unheard.len() < 99)"),
    "who lost a peer with its machine is charged": (
        VC + "blame.rs", "            EXIT_LOST => {", "            EXIT_LOST if at_ms == 0 => {"),
    "a loss explains nothing where a gang was told to give way too late": (
        VC + "ending.rs", "            // They may have failed for a peer that was lost.\n            self.blame_earlier(at_ms);\n", ""),
    "who lost a peer to an eviction is charged": (
        VC + "blame.rs", "            EXIT_PREEMPTED => {", "            EXIT_PREEMPTED if at_ms == 0 => {",
        # Mostly they are told to end before they find out.
        LEADER + "gangs/steer.rs", "        self.give_way(&current, parts);\n", ""),
    "a log never gets a second copy": (
        MEMBER + "copies.rs", "match next(&standing, &candidates, &places, group) {",
        "match next(&standing, &candidates, &places, group).filter(|_| group.0 == 1) {"),
    "copies that a virtual cluster is created with are not begun": (
        MEMBER + "mod.rs", "true => groups::GroupHostInput::Creation {\n                    group: GroupId(creation.group),",
        "true => groups::GroupHostInput::Creation {\n                    group: GroupId(creation.group | 1 << 60),"),
    "a recovered virtual cluster is not gone on with": (
        MEMBER + "mod.rs", "false => groups::GroupHostInput::Inherit(creation.lineage()),",
        "false => groups::GroupHostInput::Tick,"),
    "the group that takes the place of the cluster's is not gone on with": (
        MEMBER + "mod.rs", "            self.give(groups::GroupHostInput::Replacement(lineage));\n            self.out",
        "            drop(lineage);\n            self.out"),
    "nodes that admins keep free take jobs": (
        MEMBER + "mod.rs", "self.give(groups::GroupHostInput::Cordoned(cordons(\n            &cluster_map.closed,\n        )));",
        "self.give(groups::GroupHostInput::Cordoned(BTreeMap::new()));"),
    "members that cannot be reached count as there": (
        MEMBER + "seen.rs", "(name::node(*id), it.reach != Reach::Unreachable)",
        "(name::node(*id), it.reach != Reach::Unreachable || it.votes)"),
    "the voters of the cluster's group are not counted": (
        MEMBER + "mod.rs", "let voters = seen.voters(group).len();", "let voters = seen.voters(group).len().min(0);"),
    "nobody hears which copies a member has": (
        MEMBER + "mod.rs", "            self.out.push(MemberOutput::Routing(record));\n", "            drop(record);\n"),
    "a copy in a log store that was lost counts as there": (
        MEMBER + "seen.rs", "store: store.map(|store| store.id),", "store: store.map(|_| muster_consensus::StoreId(1)),"),
    "an alarm that is over is not cleared": (
        MEMBER + "alarms.rs", "let is_over = |key: &&Key| !wrong.contains_key(*key);",
        "let is_over = |key: &&Key| !wrong.contains_key(*key) && matches!(key, Key::Expelled);"),
    "a submission that may have taken effect is told to have failed": (
        SEARCH, "self.is_unsure |= self.wanted.changes;", "self.is_unsure |= false;"),
    "only the member that the copy here names is asked for the leader": (
        SEARCH, "self.asked = named.or_else(|| known.clone().find(untried));", "self.asked = named.or(clues.here.filter(untried));"),
    "cells keep their epochs after a recovery of the cluster": (
        "control/src/cluster/binding.rs",
        "*bound = bound.in_epoch(index);", "*bound = bound.in_epoch(index.min(1));"),
    "a virtual cluster is born in log stores that nobody has": (
        CLUSTER_GROUP + "creations.rs", "let store = store.0;", "let store = store.0 ^ 1;"),
    "the cluster's leader renews leases without asking a majority": (
        CLUSTER_GROUP + "mod.rs", "Ok(self.copies().renew(self.group(), request.node).await?)",
        "{\n            let _ = request;\n            Ok(())\n        }"),
    "what a virtual cluster asks to be bound to is not committed": (
        CLUSTER_GROUP + "mod.rs", "if !binding.is_empty() {", "if binding.is_empty() && known > 99_999 {"),
    "a recovery goes by the copies of one machine": (
        CLUSTER_GROUP + "recovery.rs", "**id != self.me && sight.reach != Reach::Unreachable",
        "**id == self.me && sight.reach != Reach::Unreachable"),
    "a leader of a recovered cluster does not say what others know": (
        CLUSTER_GROUP + "leading.rs", "if reign.is_none() || !cluster_service.begin().await {", "if reign.is_none() {"),
    "a recovered cluster is not told what members were told": (
        CLUSTER_GROUP + "replacement.rs", "told: told.map(Box::new),", "told: told.filter(|it| it.version == 0).map(Box::new),"),
}

# Scenarios and machines that a bug shows itself with, where it needs others than usually.
SHOWN_BY = {
    "a recovered cluster goes by its copy alone in who has a cell": ("S44", 20),
    "a recovered cluster binds cells before all have said which they have": ("S44", 20),
    "what others know of documents is not brought to a recovered cluster": ("S44", 7),
    "what others were told is not brought to a recovered cluster": ("S44", 7),
    "a recovered cluster is not told what members were told": ("S44", 7),
}
