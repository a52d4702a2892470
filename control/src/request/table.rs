//! A table of requests: an enum of them, and what follows from that.

/// Makes the enum of a table's requests. The order is the wire's: a new request comes last.
macro_rules! requests {
    (
        $(#[$about:meta])*
        $table:ident by $route:ident: $($request:ident),* $(,)?
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
        #[allow(missing_docs, reason = "each is the type of its name")]
        pub enum $table {
            $($request(Box<$request>),)*
        }

        /// A request of this table.
        pub trait $route: $crate::request::Request + Into<$table> {}

        $(
            impl $route for $request {}

            impl From<$request> for $table {
                fn from(request: $request) -> Self {
                    Self::$request(Box::new(request))
                }
            }
        )*

        impl $table {
            /// As [`Request::may_repeat`](crate::request::Request::may_repeat).
            pub fn may_repeat(&self) -> bool {
                use $crate::request::Request as _;
                match self {
                    $(Self::$request(request) => request.may_repeat(),)*
                }
            }

            /// As [`Request::changes`](crate::request::Request::changes).
            pub fn changes(&self) -> bool {
                use $crate::request::Request as _;
                match self {
                    $(Self::$request(request) => request.changes(),)*
                }
            }

            /// As [`Request::is_slow`](crate::request::Request::is_slow).
            pub fn is_slow(&self) -> bool {
                use $crate::request::Request as _;
                match self {
                    $(Self::$request(request) => request.is_slow(),)*
                }
            }

            /// Has it answered by `side`, for the member `from`, as bytes.
            pub async fn answer<A>(
                self,
                side: &A,
                from: muster_gossip::member::MemberId,
            ) -> Option<Vec<u8>>
            where
                A: $($crate::request::Answers<$request> +)* Sync,
            {
                match self {
                    $(Self::$request(request) => {
                        $crate::request::encode_answer(&side.answer(from, *request).await)
                    })*
                }
            }
        }
    };
}

pub(super) use requests;
