;; A component that does not export handlers.
(component
  (core module $module
    (func (export "run") (result i32) (i32.const 42)))
  (core instance $guest (instantiate $module))
  (func (export "run") (result u32) (canon lift (core func $guest "run")))
)
