//! Jobs as tests submit them: OpenPAI documents of one role.

/// A job of one role, `main`.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Its name.
    pub name: &'a str,
    /// What each task runs, by a shell.
    pub commands: &'a str,
    /// The image of all tasks.
    pub image: &'a str,
    /// Memory of a task in MiB.
    pub memory_mb: u32,
    /// GPUs of a task.
    pub gpu: u32,
    /// How many tasks.
    pub instances: u32,
    /// Ports of a task, as `label: count`.
    pub ports: &'a str,
    /// More of the document.
    pub extra: &'a str,
    /// More of the role, as `key: value`.
    pub role: &'a str,
}

impl<'a> Job<'a> {
    /// One task without GPUs, of the image `muster/busybox`.
    pub fn new(name: &'a str, commands: &'a str) -> Self {
        Self {
            name,
            commands,
            image: "muster/busybox",
            memory_mb: 64,
            gpu: 0,
            instances: 1,
            ports: "",
            extra: "",
            role: "",
        }
    }

    /// The document to submit.
    pub fn yaml(&self) -> String {
        let Self {
            name,
            commands,
            image,
            memory_mb,
            gpu,
            instances,
            ports,
            extra,
            role,
        } = self;
        let ports = match *ports {
            "" => String::new(),
            ports => format!(", ports: {{{ports}}}"),
        };
        format!(
            "protocolVersion: 2\nname: {name}\ntype: job\n{extra}\nprerequisites:\n  \
             - {{type: dockerimage, name: image, uri: '{image}'}}\ntaskRoles:\n  main:\n    \
             instances: {instances}\n    dockerImage: image\n    resourcePerInstance: \
             {{cpu: 1, memoryMB: {memory_mb}, gpu: {gpu}{ports}}}\n    {role}\n    commands:\n      - |\n        {}\n",
            commands.replace('\n', "\n        ")
        )
    }
}
