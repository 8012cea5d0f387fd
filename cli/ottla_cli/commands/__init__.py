"""One module a command of the SDK, named after it; `lazy.MODULES` lists them."""
