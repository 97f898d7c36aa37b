"""Foreign documents as text with places: what every reader of them needs."""

# What other rooms may use of this one.
DOOR = {
    "leaves": "leaves LEFT_OUT rebuilt",
    "shapes": (
        "Fault fault_of Holds list_at mapping_at mappings_at Objection objects_at Rule Shape size_fault "
        "text_at texts_at value_at"
    ),
    "text_places": "TextPlace",
    "times": "parse_duration parse_time time_text",
    "yaml_text": "ELISION INVALID Node Notes problem_at read_yaml whole_number YamlDocument YamlStream",
}
