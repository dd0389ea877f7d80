;; A core module, not a component.
(module
  (memory (export "memory") 1)
  (func (export "_start")))
