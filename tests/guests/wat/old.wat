;; A component of the first version: it imports `control` and `log` of 1.0.0, as those do that a compiler made then. Its
;; handler reports progress, writes a line and returns nothing.
(component
  (import "host:jobs/control@1.0.0" (instance $control
    (export "progress" (func (param "percent" (option f32)) (param "message" string)))))
  (import "host:jobs/log@1.0.0" (instance $log
    (type $levels (enum "trace" "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $levels)))
    (export "write" (func (param "level" $level) (param "message" string)
      (param "fields" (list (tuple string string)))))))
  (component $handler
    (import "control" (instance $control
      (export "progress" (func (param "percent" (option f32)) (param "message" string)))))
    (import "log" (instance $log
      (type $levels (enum "trace" "debug" "info" "warn" "error"))
      (export "level" (type $level (eq $levels)))
      (export "write" (func (param "level" $level) (param "message" string)
        (param "fields" (list (tuple string string)))))))
    (core module $memory (memory (export "memory") 1))
    (core instance $memory (instantiate $memory))
    (core func $progress
      (canon lower (func $control "progress") (memory (core memory $memory "memory"))))
    (core func $write (canon lower (func $log "write") (memory (core memory $memory "memory"))))
    (core instance $host
      (export "memory" (memory $memory "memory"))
      (export "progress" (func $progress))
      (export "write" (func $write)))
    (core module $module
      (import "host" "memory" (memory 1))
      (import "host" "progress" (func $progress (param i32 f32 i32 i32)))
      (import "host" "write" (func $write (param i32 i32 i32 i32 i32)))
      (global $free (mut i32) (i32.const 4096))
      (data (i32.const 16) "\40\00\00\00\01\00\00\00")
      (data (i32.const 64) "\00\02\00\00\07\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
      (data (i32.const 512) "by_hand")
      (data (i32.const 600) "half")
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
        (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
        (global.set $free (i32.add (local.get $at) (local.get 3)))
        (local.get $at))
      (func (export "describe") (result i32) (i32.const 16))
      (func (export "handle") (param i32) (result i32)
        (call $progress (i32.const 1) (f32.const 50) (i32.const 600) (i32.const 4))
        (call $write (i32.const 2) (i32.const 600) (i32.const 4) (i32.const 0) (i32.const 0))
        (i32.const 32)))
    (core instance $guest (instantiate $module (with "host" (instance $host))))
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
      (canon lift (core func $guest "describe") (memory (core memory $memory "memory"))))
    (func (export "handle") (param "ctx" $context) (param "params" string)
      (result (result (option string) (error $failure)))
      (canon lift (core func $guest "handle") (memory (core memory $memory "memory"))
        (realloc (core func $guest "realloc"))))
  )
  (instance $exported (instantiate $handler
    (with "control" (instance $control)) (with "log" (instance $log))))
  (export "host:jobs/handler@1.0.0" (instance $exported))
)
