//! The shape of a job, as upstream's rest-server judges it, and the limits we add.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::remark::Remark;

use super::JobProblem;
use super::problem::ProblemAdvice;
use super::schema::{Schema, TextPattern, Type};

/// Tasks over all roles of a job.
pub const TASKS_MAX: u64 = 10_000;
/// Runtime plugins in a job's `extras`.
pub const PLUGINS_MAX: usize = 100;
/// CPU cores of one task.
pub const CPU_MAX: i64 = 65_536;
/// Memory, and shared memory, of one task in MiB: 1 PiB.
pub const MEMORY_MB_MAX: i64 = 1 << 30;
/// GPUs of one task.
pub const GPU_MAX: i64 = 4_096;
/// Ports under one label of one task.
pub const PORTS_PER_LABEL_MAX: i64 = 1_000;
/// Longest name of a job, a prerequisite or a deployment.
const NAME_LENGTH_MAX: usize = 255;
/// Counts of tasks and retries have to fit 32 bits.
const COUNT_MAX: i64 = i32::MAX as i64;
/// FrameworkController's "retry always, even after a success".
const RETRY_ALWAYS: i64 = -2;

static PROTOCOL: LazyLock<Schema> = LazyLock::new(protocol);

/// Everything that is wrong with the document's shape.
pub(super) fn check_shape(document: &Value) -> Vec<JobProblem> {
    let mut problems = PROTOCOL.check(document);
    if !problems.is_empty() && is_version_1(document) {
        problems = problems.into_iter().map(JobProblem::silent).collect();
        if let Some(first) = problems.first_mut() {
            first.advice = ProblemAdvice::Instead(Box::new(Remark::at("", VERSION_1)));
        }
    }
    problems
}

const VERSION_1: &str = "This is a job of protocol 1, which is not read. In protocol 2 (protocolVersion: 2, \
    type: job) the image is one of prerequisites, with type: dockerimage, and taskRoles is a mapping from \
    names to instances, dockerImage, resourcePerInstance and commands.";

/// Whether it is a job of the protocol that upstream had before.
fn is_version_1(document: &Value) -> bool {
    let has = |field| document.get(field);
    let is_newer = has("protocolVersion").is_some_and(|version| *version != 1 && *version != "1");
    let is_list = has("taskRoles").is_some_and(Value::is_array);
    !is_newer && (has("jobName").is_some() || is_list)
}

fn of(kind: Type) -> Schema {
    Schema {
        types: vec![kind],
        ..Schema::default()
    }
}

fn text() -> Schema {
    of(Type::String)
}

fn hidden(schema: Schema) -> Schema {
    Schema {
        hides: true,
        ..schema
    }
}

fn optional_text() -> Schema {
    Schema {
        types: vec![Type::String, Type::Null],
        ..Schema::default()
    }
}

fn optional_flag() -> Schema {
    Schema {
        types: vec![Type::Boolean, Type::Null],
        ..Schema::default()
    }
}

fn integer(minimum: i64, maximum: i64) -> Schema {
    Schema {
        minimum: Some(minimum),
        maximum: Some(maximum),
        ..of(Type::Integer)
    }
}

fn list_of(items: Schema, min_size: usize) -> Schema {
    Schema {
        items: Some(Box::new(items)),
        min_size,
        ..of(Type::Array)
    }
}

fn one_of_texts(choices: &[&str]) -> Schema {
    Schema {
        choices: choices.iter().map(|choice| json!(choice)).collect(),
        ..text()
    }
}

fn object(properties: Vec<(&'static str, Schema)>) -> Schema {
    Schema {
        properties,
        ..of(Type::Object)
    }
}

/// A map from names of the user's choice to `schema`, at least one.
fn map_of(pattern: TextPattern, schema: Schema) -> Schema {
    Schema {
        named: Some((pattern, Box::new(schema))),
        min_size: 1,
        closed: true,
        ..of(Type::Object)
    }
}

fn version_field() -> Schema {
    Schema {
        choices: vec![json!("2"), json!(2)],
        ..Schema::default()
    }
}

/// The fields that a job and its prerequisites share.
fn shared() -> Vec<(&'static str, Schema)> {
    let name = Schema {
        pattern: Some(TextPattern::Name),
        max_length: Some(NAME_LENGTH_MAX),
        ..text()
    };
    let version = Schema {
        types: vec![Type::String, Type::Number],
        ..Schema::default()
    };
    vec![
        ("protocolVersion", version_field()),
        ("name", name),
        ("version", version),
        ("contributor", text()),
        ("description", text()),
    ]
}

/// A shared field where upstream refers to its base schema.
fn referred(field: &'static str) -> (&'static str, Schema) {
    let target = match field {
        "protocolVersion" => "base.json#/properties/protocolVersion",
        "name" => "base.json#/properties/name",
        "version" => "base.json#/properties/version",
        "contributor" => "base.json#/properties/contributor",
        _ => "base.json#/properties/description",
    };
    let schema = shared().into_iter().find(|(name, _)| *name == field);
    let schema = schema.map(|(_, schema)| schema).unwrap_or_default();
    (
        field,
        Schema {
            reference: Some(target),
            ..schema
        },
    )
}

fn prerequisite() -> Schema {
    let branch = |own: Vec<(&'static str, Schema)>| {
        let mut properties = shared();
        properties.extend(own);
        Schema {
            merged: true,
            required: &["name", "type"],
            ..object(properties)
        }
    };
    let imported = |kinds: &[&str], uri: Schema| {
        branch(vec![
            ("type", one_of_texts(kinds)),
            ("plugin", text()),
            ("require", list_of(text(), 0)),
            ("uri", uri),
        ])
    };
    let auth = vec![
        ("username", text()),
        ("password", hidden(text())),
        ("registryuri", text()),
    ];
    let image = branch(vec![
        ("type", one_of_texts(&["dockerimage"])),
        ("auth", hidden(object(auth))),
        ("uri", text()),
    ]);
    let one_of = vec![
        imported(&["script", "output"], text()),
        imported(&["data"], list_of(text(), 0)),
        Schema {
            closed: true,
            required: &["name", "type", "uri"],
            ..image
        },
    ];
    Schema {
        one_of,
        ..of(Type::Object)
    }
}

fn task_role() -> Schema {
    let threshold = || Schema {
        types: vec![Type::Integer, Type::Null],
        ..integer(-COUNT_MAX, COUNT_MAX)
    };
    let completion = object(vec![
        ("minFailedInstances", threshold()),
        ("minSucceededInstances", threshold()),
    ]);
    let options = object(vec![
        ("shmMB", integer(0, MEMORY_MB_MAX)),
        ("infiniband", of(Type::Boolean)),
    ]);
    let fields = vec![
        referred("protocolVersion"),
        ("instances", integer(1, COUNT_MAX)),
        (
            "completion",
            Schema {
                closed: true,
                ..completion
            },
        ),
        ("taskRetryCount", integer(RETRY_ALWAYS, COUNT_MAX)),
        ("prerequisites", list_of(text(), 0)),
        ("dockerImage", text()),
        ("data", text()),
        ("output", text()),
        ("script", text()),
        ("extraContainerOptions", options),
        ("resourcePerInstance", resources()),
        ("commands", list_of(text(), 1)),
    ];
    Schema {
        closed: true,
        required: &["dockerImage", "resourcePerInstance", "commands"],
        ..object(fields)
    }
}

fn resources() -> Schema {
    let fields = vec![
        ("cpu", integer(0, CPU_MAX)),
        ("memoryMB", integer(0, MEMORY_MB_MAX)),
        ("gpu", integer(0, GPU_MAX)),
        (
            "ports",
            map_of(TextPattern::Identifier, integer(0, PORTS_PER_LABEL_MAX)),
        ),
    ];
    Schema {
        closed: true,
        required: &["cpu", "memoryMB", "gpu"],
        ..object(fields)
    }
}

fn deployment() -> Schema {
    let commands = object(vec![
        ("preCommands", list_of(text(), 1)),
        ("postCommands", list_of(text(), 1)),
    ]);
    let fields = vec![
        referred("protocolVersion"),
        referred("name"),
        (
            "taskRoles",
            map_of(
                TextPattern::Identifier,
                Schema {
                    closed: true,
                    ..commands
                },
            ),
        ),
    ];
    Schema {
        required: &["name", "taskRoles"],
        ..object(fields)
    }
}

fn extras() -> Schema {
    let role = object(vec![
        ("skuType", optional_text()),
        ("pinnedCellId", optional_text()),
        ("affinityGroupName", optional_text()),
    ]);
    let classes = ["prod", "test", "oppo", "crit"].map(|class| json!(class));
    let hived = object(vec![
        (
            "jobPriorityClass",
            Schema {
                choices: classes.to_vec(),
                ..Schema::default()
            },
        ),
        ("lazyPreemptionEnable", optional_flag()),
        ("taskRoles", map_of(TextPattern::HivedRole, role)),
    ]);
    let plugin = object(vec![
        ("plugin", text()),
        ("parameters", Schema::default()),
        ("taskroles", list_of(text(), 0)),
        ("failurePolicy", one_of_texts(&["fail", "ignore"])),
    ]);
    object(vec![
        ("hivedScheduler", hived),
        (
            "com.microsoft.pai.runtimeplugin",
            list_of(
                Schema {
                    required: &["plugin"],
                    ..plugin
                },
                0,
            ),
        ),
    ])
}

fn protocol() -> Schema {
    let fields = vec![
        referred("protocolVersion"),
        referred("name"),
        ("type", one_of_texts(&["job"])),
        referred("version"),
        referred("contributor"),
        referred("description"),
        ("prerequisites", list_of(prerequisite(), 1)),
        ("parameters", of(Type::Object)),
        ("secrets", hidden(of(Type::Object))),
        ("jobRetryCount", integer(0, COUNT_MAX)),
        ("taskRoles", map_of(TextPattern::Identifier, task_role())),
        ("deployments", list_of(deployment(), 1)),
        ("defaults", object(vec![("deployment", text())])),
        ("extras", extras()),
    ];
    Schema {
        closed: true,
        required: &["protocolVersion", "name", "type", "taskRoles"],
        ..object(fields)
    }
}
