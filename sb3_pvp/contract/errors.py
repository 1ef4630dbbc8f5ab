"""The one error of this package."""


class ContractError(ValueError):
    """A contract, a contract file or an id in it is not what it should be; the message says what to do."""
