;; Imports sockets of UDP, and calls a function of theirs when it runs.
(component
  (import "wasi:sockets/udp-create-socket@0.2.6" (instance $network
    (export "create-udp-socket" (func (result u32)))))
  (component $handler
    (import "call" (func $call (result u32)))
    (core func $lowered (canon lower (func $call)))
    (core instance $imports (export "call" (func $lowered)))
    (core module $module
      (import "network" "call" (func $call (result i32)))
      (memory (export "memory") 1)
      (global $free (mut i32) (i32.const 4096))
      (data (i32.const 16) "\40\00\00\00\01\00\00\00")
      (data (i32.const 64) "\00\02\00\00\05\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
      (data (i32.const 512) "never")
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
        (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
        (global.set $free (i32.add (local.get $at) (local.get 3)))
        (local.get $at))
      (func (export "describe") (result i32) (i32.const 16))
      (func (export "handle") (param i32) (result i32) (drop (call $call)) unreachable))
    (core instance $guest (instantiate $module (with "network" (instance $imports))))
    (type $context-record (record
      (field "job-id" string) (field "request-id" string) (field "function" string)
      (field "queue" string) (field "protocol" string) (field "attempt" u32)
      (field "max-attempts" (option u32)) (field "enqueued-at" string)
      (field "deadline" (option string)) (field "worker-id" (option string))
      (field "trace" (list (tuple string string)))
      (field "attributes" (list (tuple string string)))))
    (export $context "context" (type $context-record))
    (type $category-enum (enum "user-code" "data-quality" "infrastructure" "configuration"
      "timeout" "cancelled"))
    (export $category "category" (type $category-enum))
    (type $job-error-record (record
      (field "category" $category) (field "kind" string) (field "message" string)
      (field "code" (option string)) (field "details" (option string))
      (field "stack" (option string)) (field "retryable" (option bool))))
    (export $job-error "job-error" (type $job-error-record))
    (type $retry-request-record (record
      (field "reason" string) (field "after-ms" (option u32))))
    (export $retry-request "retry-request" (type $retry-request-record))
    (type $failure-variant (variant
      (case "error" $job-error) (case "retry" $retry-request)
      (case "cancelled" (option string))))
    (export $failure "failure" (type $failure-variant))
    (type $handler-info-record (record
      (field "name" string) (field "description" (option string))
      (field "params-schema" (option string)) (field "result-schema" (option string))))
    (export $handler-info "handler-info" (type $handler-info-record))
    (func (export "describe") (result (list $handler-info))
      (canon lift (core func $guest "describe") (memory (core memory $guest "memory"))))
    (func (export "handle") (param "ctx" $context) (param "params" string)
      (result (result (option string) (error $failure)))
      (canon lift (core func $guest "handle") (memory (core memory $guest "memory"))
        (realloc (core func $guest "realloc"))))
  )
  (instance $exported (instantiate $handler
    (with "call" (func $network "create-udp-socket"))))
  (export "host:jobs/handler@1.0.0" (instance $exported))
)
