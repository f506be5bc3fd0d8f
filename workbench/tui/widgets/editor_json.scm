; Later patterns override earlier ones. A pattern looks at a node and its parent only.
(string) @string
(escape_sequence) @escape
(pair key: (string) @key)
(number) @number
[(true) (false) (null)] @literal
(ERROR) @error
