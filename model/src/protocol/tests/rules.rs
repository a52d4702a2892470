//! One row for each rule: the change that breaks it, and what is said.

use serde_json::json;

use super::super::upstream_message;
use super::{changed, invalid, valid};

#[track_caller]
fn check(path: &str, value: &str, expect: &[(&str, &str)]) {
    let problems = invalid(&changed(path, value));
    let found: Vec<_> = problems
        .iter()
        .map(|p| (p.path.as_str(), p.message.as_str()))
        .collect();
    assert_eq!(found, expect, "{path} = {value}");
}

#[test]
fn every_rule_of_the_shape_is_told() {
    const CLOSED: &str = "should NOT have additional properties";
    const ENUM: &str = "should be equal to one of the allowed values";
    const W: &str = ".taskRoles.worker";
    let worker = |field: &str| format!("{W}{field}");
    let rows: &[(&str, &str, String, &str)] = &[
        ("protocolVersion", "3", ".protocolVersion".into(), ENUM),
        (
            "protocolVersion",
            "",
            String::new(),
            "should have required property 'protocolVersion'",
        ),
        (
            "name",
            "a b",
            ".name".into(),
            "should match pattern \"^[a-zA-Z0-9_-]+$\"",
        ),
        ("name", "123", ".name".into(), "should be string"),
        (
            "version",
            "[1]",
            ".version".into(),
            "should be string,number",
        ),
        ("type", "data", ".type".into(), ENUM),
        ("surplus", "1", String::new(), CLOSED),
        (
            "prerequisites",
            "[]",
            ".prerequisites".into(),
            "should NOT have fewer than 1 items",
        ),
        ("secrets", "text", ".secrets".into(), "should be object"),
        (
            "jobRetryCount",
            "-1",
            ".jobRetryCount".into(),
            "should be >= 0",
        ),
        (
            "taskRoles",
            "{}",
            ".taskRoles".into(),
            "should NOT have fewer than 1 properties",
        ),
        ("taskRoles", "5", ".taskRoles".into(), "should be object"),
        (
            "taskRoles/worker/instances",
            "0",
            worker(".instances"),
            "should be >= 1",
        ),
        (
            "taskRoles/worker/instances",
            "1.5",
            worker(".instances"),
            "should be integer",
        ),
        ("taskRoles/worker/minInstances", "1", worker(""), CLOSED),
        (
            "taskRoles/worker/commands",
            "[]",
            worker(".commands"),
            "should NOT have fewer than 1 items",
        ),
        (
            "taskRoles/worker/commands",
            "[1]",
            worker(".commands[0]"),
            "should be string",
        ),
        (
            "taskRoles/worker/commands",
            "",
            worker(""),
            "should have required property 'commands'",
        ),
        (
            "taskRoles/worker/completion",
            "{minFailedInstances: x}",
            worker(".completion.minFailedInstances"),
            "should be integer,null",
        ),
        (
            "taskRoles/worker/taskRetryCount",
            "-3",
            worker(".taskRetryCount"),
            "should be >= -2",
        ),
        (
            "taskRoles/worker/extraContainerOptions",
            "{infiniband: 'yes'}",
            worker(".extraContainerOptions.infiniband"),
            "should be boolean",
        ),
        (
            "taskRoles/worker/extraContainerOptions",
            "{shmMB: -1}",
            worker(".extraContainerOptions.shmMB"),
            "should be >= 0",
        ),
        (
            "taskRoles/worker/resourcePerInstance/gpu",
            "",
            worker(".resourcePerInstance"),
            "should have required property 'gpu'",
        ),
        (
            "taskRoles/worker/resourcePerInstance/gpu",
            "-1",
            worker(".resourcePerInstance.gpu"),
            "should be >= 0",
        ),
        (
            "taskRoles/worker/resourcePerInstance/cpu",
            "1e300",
            worker(".resourcePerInstance.cpu"),
            "should be <= 65536",
        ),
        (
            "taskRoles/worker/resourcePerInstance/memoryMB",
            "99999999999999999999",
            worker(".resourcePerInstance.memoryMB"),
            "should be <= 1073741824",
        ),
        (
            "taskRoles/worker/resourcePerInstance/ports",
            "{a-b: 1}",
            worker(".resourcePerInstance.ports"),
            CLOSED,
        ),
        (
            "taskRoles/worker/resourcePerInstance/ports",
            "{web: 1001}",
            worker(".resourcePerInstance.ports.web"),
            "should be <= 1000",
        ),
        (
            "deployments",
            "[{name: d, taskRoles: {worker: {preCommands: []}}}]",
            ".deployments[0].taskRoles.worker.preCommands".into(),
            "should NOT have fewer than 1 items",
        ),
        (
            "defaults",
            "{virtualCluster: 5}",
            ".defaults.virtualCluster".into(),
            "should be string",
        ),
        (
            "extras",
            "{hivedScheduler: {jobPriorityClass: urgent}}",
            ".extras.hivedScheduler.jobPriorityClass".into(),
            ENUM,
        ),
        (
            "extras",
            "{hivedScheduler: {lazyPreemptionEnable: 'yes'}}",
            ".extras.hivedScheduler.lazyPreemptionEnable".into(),
            "should be boolean,null",
        ),
        (
            "extras",
            "{com.microsoft.pai.runtimeplugin: [{}]}",
            ".extras.com.microsoft.pai.runtimeplugin[0]".into(),
            "should have required property 'plugin'",
        ),
    ];
    for (path, value, place, message) in rows {
        check(path, value, &[(place, message)]);
    }
}

#[test]
fn every_rule_beyond_the_shape_is_told() {
    let rows: &[(&str, &str, &str, &str)] = &[
        (
            "taskRoles/worker/dockerImage",
            "other",
            ".taskRoles.worker.dockerImage",
            "Prerequisite other does not exist.",
        ),
        (
            "taskRoles/worker/data",
            "image",
            ".taskRoles.worker.data",
            "Prerequisite image does not exist.",
        ),
        (
            "taskRoles/worker/prerequisites",
            "[nope]",
            ".taskRoles.worker.prerequisites[0]",
            "Prerequisite nope does not exist.",
        ),
        (
            "taskRoles/worker/instances",
            "10001",
            ".taskRoles",
            "The job has 10001 tasks; at most 10000 are allowed.",
        ),
        (
            "taskRoles/worker/commands",
            "['echo <% $parameters.x']",
            ".taskRoles.worker.commands",
            "The tag <% $parameters.x is not closed with %>.",
        ),
        (
            "taskRoles/worker/commands",
            "['<%= x =%>']",
            ".taskRoles.worker.commands",
            "The tag <%= x = %> is not supported; write <% $parameters.name %>.",
        ),
        (
            "prerequisites",
            "[{type: dockerimage, name: image, uri: a}, {type: dockerimage, name: image, uri: b}]",
            ".prerequisites[1]",
            "Duplicate dockerimage prerequisites image.",
        ),
        (
            "prerequisites",
            "[{type: dockerimage, name: image, uri: ' '}]",
            ".taskRoles.worker.dockerImage",
            "Prerequisite image has an empty uri.",
        ),
        (
            "deployments",
            "[{name: d, taskRoles: {a: {}}}, {name: d, taskRoles: {a: {}}}]",
            ".deployments[1]",
            "Duplicate deployments d.",
        ),
        (
            "defaults",
            "{deployment: prod}",
            ".defaults.deployment",
            "Default deployment prod does not exist.",
        ),
        (
            "defaults",
            "{virtualCluster: a-b}",
            ".defaults.virtualCluster",
            "virtual cluster name \"a-b\" is not valid: use letters, digits and '_', at most 255 of them",
        ),
        (
            "extras",
            "{hivedScheduler: {taskRoles: {ghost: {}}}}",
            ".extras.hivedScheduler.taskRoles.ghost",
            "Taskrole ghost does not exist.",
        ),
        (
            "extras",
            "{hivedScheduler: {taskRoles: {worker: {skuType: K80, pinnedCellId: c}}}}",
            ".extras.hivedScheduler.taskRoles.worker",
            "Taskrole worker has both skuType and pinnedCellId, only one is allowed.",
        ),
        (
            "extras",
            "{com.microsoft.pai.runtimeplugin: [{plugin: cmd, parameters: {preCommands: [a], callbacks: []}}]}",
            ".extras.com.microsoft.pai.runtimeplugin[0].parameters",
            "The cmd plugin takes preCommands and postCommands, or callbacks, not both.",
        ),
        (
            "extras",
            "{com.microsoft.pai.runtimeplugin: [{plugin: cmd, parameters: {preCommands: a}}]}",
            ".extras.com.microsoft.pai.runtimeplugin[0].parameters.preCommands",
            "should be array of string",
        ),
        (
            "extras",
            "{com.microsoft.pai.runtimeplugin: [{plugin: cmd, parameters: {callbacks: [{event: later}]}}]}",
            ".extras.com.microsoft.pai.runtimeplugin[0].parameters.callbacks[0].event",
            "should be taskStarts or taskSucceeds",
        ),
    ];
    for (path, value, place, message) in rows {
        check(path, value, &[(place, message)]);
    }
}

#[test]
fn an_affinity_group_has_one_sku() {
    let text = changed(
        "extras",
        "{hivedScheduler: {taskRoles: {worker: {skuType: K80, affinityGroupName: g}, \
         other: {skuType: M60, affinityGroupName: g}}}}",
    );
    let messages: Vec<_> = invalid(&text).into_iter().map(|p| p.message).collect();
    let expect = [
        "Taskrole other does not exist.",
        "AffinityGroup g has inconsistent skuType or pinnedCellId.",
    ];
    assert_eq!(messages, expect);
}

#[test]
fn what_upstream_admits_is_admitted() {
    let rows = [
        ("protocolVersion", "'2'"),
        ("protocolVersion", "2.0"),
        ("version", "1.5"),
        ("taskRoles/worker/instances", "3.0"),
        (
            "taskRoles/worker/completion",
            "{minFailedInstances: null, minSucceededInstances: -1}",
        ),
        ("taskRoles/worker/resourcePerInstance/cpu", "0"),
        (
            "extras",
            "{hivedScheduler: {jobPriorityClass: crit}, submitFrom: x, anything: [1]}",
        ),
        (
            "extras",
            "{hivedScheduler: {taskRoles: {worker: {skuType: null, skuNum: 2}}}}",
        ),
    ];
    for (path, value) in rows {
        valid(&changed(path, value));
    }
}

/// Recorded from upstream: every error at once, in this order, as a JSON array.
#[test]
fn shape_errors_read_as_upstream_writes_them() {
    let message = upstream_message(&invalid("protocolVersion: 2\nname: a b\n"));
    let expect = concat!(
        r##"[{"keyword":"pattern","dataPath":".name","##,
        r##""schemaPath":"base.json#/properties/name/pattern","##,
        r##""params":{"pattern":"^[a-zA-Z0-9_-]+$"},"##,
        r##""message":"should match pattern \"^[a-zA-Z0-9_-]+$\""},"##,
        r##"{"keyword":"required","dataPath":"","schemaPath":"#/required","##,
        r##""params":{"missingProperty":"type"},"message":"should have required property 'type'"},"##,
        r##"{"keyword":"required","dataPath":"","schemaPath":"#/required","##,
        r##""params":{"missingProperty":"taskRoles"},"message":"should have required property 'taskRoles'"}]"##,
    );
    assert_eq!(message, expect);
    let object = r##"[{"keyword":"type","dataPath":"","schemaPath":"#/type","params":{"type":"object"},"message":"should be object"}]"##;
    for text in ["", "# nothing", "~", "5", "[]", "a text"] {
        assert_eq!(upstream_message(&invalid(text)), object, "{text:?}");
    }
}

#[test]
fn paths_are_told_in_both_notations() {
    let problems = invalid(&changed(
        "taskRoles",
        "{ports: {dockerImage: i, commands: [a], resourcePerInstance: {cpu: x, memoryMB: 1, gpu: 0, ports: {web: x}}}}",
    ));
    let paths: Vec<_> = problems
        .iter()
        .map(|p| (p.path.clone(), p.data_path()))
        .collect();
    let expect = [
        (
            ".taskRoles.ports.resourcePerInstance.cpu",
            ".taskRoles['ports'].resourcePerInstance.cpu",
        ),
        (
            ".taskRoles.ports.resourcePerInstance.ports.web",
            ".taskRoles['ports'].resourcePerInstance.ports['web']",
        ),
    ];
    assert_eq!(
        paths,
        expect.map(|(path, data)| (path.to_owned(), data.to_owned()))
    );
}

#[test]
fn a_wrong_prerequisite_is_told_for_every_form_it_could_have() {
    let problems = invalid(&changed(
        "prerequisites",
        "[{type: git, name: image, uri: a}]",
    ));
    let found: Vec<_> = problems.iter().map(|p| p.to_ajv()).collect();
    let branch = |index: usize, kinds: serde_json::Value| {
        let at = format!("#/properties/prerequisites/items/oneOf/{index}");
        [
            json!({"keyword": "enum", "dataPath": ".prerequisites[0].type",
                   "schemaPath": format!("{at}/properties/type/enum"),
                   "params": {"allowedValues": kinds},
                   "message": "should be equal to one of the allowed values"}),
            json!({"keyword": "$merge", "dataPath": ".prerequisites[0]",
                   "schemaPath": format!("{at}/$merge"), "params": {"keyword": "$merge"},
                   "message": "should pass \"$merge\" keyword validation"}),
        ]
    };
    let mut expect = Vec::new();
    expect.extend(branch(0, json!(["script", "output"])));
    let uri = json!({"keyword": "type", "dataPath": ".prerequisites[0].uri",
                     "schemaPath": "#/properties/prerequisites/items/oneOf/1/properties/uri/type",
                     "params": {"type": "array"}, "message": "should be array"});
    let [kind, merge] = branch(1, json!(["data"]));
    expect.extend([kind, uri, merge]);
    expect.extend(branch(2, json!(["dockerimage"])));
    expect.push(json!({"keyword": "oneOf", "dataPath": ".prerequisites[0]",
                       "schemaPath": "#/properties/prerequisites/items/oneOf",
                       "params": {"passingSchemas": null},
                       "message": "should match exactly one schema in oneOf"}));
    assert_eq!(found, expect);
}

/// ajv tells a missing property where the schema lists it, after what is there and should not be.
#[test]
fn problems_come_in_ajvs_order() {
    let role = "{w: {surplus: 1, instances: 0, dockerImage: i, commands: []}}";
    let messages: Vec<_> = invalid(&changed("taskRoles", role))
        .into_iter()
        .map(|problem| problem.message)
        .collect();
    let expect = [
        "should NOT have additional properties",
        "should be >= 1",
        "should have required property 'resourcePerInstance'",
        "should NOT have fewer than 1 items",
    ];
    assert_eq!(messages, expect);
}

#[test]
fn plugins_are_limited() {
    let plugins = vec!["{plugin: ssh}"; 101].join(",");
    let extras = format!("{{com.microsoft.pai.runtimeplugin: [{plugins}]}}");
    let message = "The job has 101 plugins; at most 100 are allowed.";
    check("extras", &extras, &[(".extras", message)]);
}
