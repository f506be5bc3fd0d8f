; Later patterns override earlier ones.
(string) @string
(escape_sequence) @escape
(pair key: (string) @key)
(number) @number
[(true) (false) (null)] @literal
(ERROR) @error
