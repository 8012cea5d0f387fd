"""The contracts (`*.proto`) and, beside them, the code generated from them (`make proto`)."""
