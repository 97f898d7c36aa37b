"""A domain outside of nexusform: racks from a text file, and a site in a file."""

from nexusform.domain_declaration import DomainDeclaration

DOMAIN = DomainDeclaration(
    name="rack_list",
    description="Racks from a text file",
    package="rack_list",
    interface_version=1,
    data_sources={"rack_list": "rack_list"},
    providers={"file_site": "providers.file_site:PROVIDER"},
)
