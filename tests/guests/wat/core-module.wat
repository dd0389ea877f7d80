;; A module of code, but no component.
(module
  (memory (export "memory") 1)
  (func (export "_start")))
