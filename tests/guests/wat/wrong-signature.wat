;; Exports an interface with the right name, but its function has the wrong signature.
(component
  (component $handler
    (core module $module
      (func (export "describe") (result i32) (i32.const 42)))
    (core instance $guest (instantiate $module))
    (func (export "describe") (result u32) (canon lift (core func $guest "describe")))
  )
  (instance $exported (instantiate $handler))
  (export "host:jobs/handler@1.0.0" (instance $exported))
)
