"""Words that values are drawn from: the small sets, and the parts of the combined ones."""

from plume_memory.training.facts.names import listed

MONTHS = listed(
    """
    January February March April May June July August September October November December
    """
)
WEEKDAYS = listed(
    """
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday
    """
)
COLOURS = listed(
    """
    amber azure beige black blue bronze brown burgundy coral cream crimson cyan emerald gold green grey indigo
    ivory khaki lavender lilac magenta maroon mauve navy ochre olive orange pink plum purple red rust scarlet
    silver teal turquoise violet white yellow
    """
)
ANIMALS = listed(
    """
    alpaca badger bat beaver bison camel cat cobra cougar crane crow deer dingo dolphin donkey eagle falcon
    ferret finch fox frog gecko goat goose hamster hare hawk hedgehog heron hyena ibis iguana jackal jaguar
    koala lemur leopard lizard llama lynx magpie mole moose newt ocelot octopus osprey otter owl panda parrot
    pelican penguin puffin python quail rabbit raccoon raven salmon seal sloth sparrow squirrel stork swan tapir
    tiger toad tortoise trout turkey viper vulture walrus weasel wolf wombat yak zebra
    """
)
FOODS = listed(
    """
    lentil soup, mushroom risotto, fish curry, potato salad, spinach pie, noodle soup, grilled trout, bean stew,
    rice pudding, onion tart, pumpkin soup, egg fried rice, chickpea stew, tomato soup, vegetable lasagne, roast
    duck, cabbage rolls, barley porridge, cheese dumplings, lamb stew, plum cake, walnut bread, beetroot salad,
    corn fritters, apple strudel, seafood paella, lemon chicken, stuffed peppers, pea soup, buckwheat pancakes,
    leek quiche, fig tart
    """,
    separator=",",
)
SIDES = listed(
    """
    mint, ginger, olives, dill, almonds, pickles, sour cream, raisins, garlic, basil, chestnuts, honey, mustard,
    parsley, saffron, capers, cranberries, sesame, thyme, yoghurt
    """,
    separator=",",
)
DRINKS = listed(
    """
    black coffee, green tea, oat milk, apple cider, ginger beer, tomato juice, hot chocolate, mineral water,
    peppermint tea, lemonade, espresso, buttermilk, pear juice, iced tea, barley water, rooibos tea, carrot
    juice, cherry juice, ginger tea, coconut water, elderflower cordial, white wine, dark beer, oolong tea, plum
    brandy, malt whisky
    """,
    separator=",",
)
INSTRUMENTS = listed(
    """
    accordion banjo bassoon bugle cello clarinet cornet didgeridoo dulcimer flute guitar harmonica harp
    harpsichord kalimba lute lyre mandolin marimba oboe ocarina organ piano piccolo recorder saxophone sitar
    tabla trombone trumpet tuba ukulele viola violin xylophone zither
    """
)
JOBS = listed(
    """
    accountant actuary anaesthetist archivist baker beekeeper blacksmith botanist bricklayer butcher carpenter
    cartographer chemist choreographer clockmaker conductor cooper dentist diver electrician engraver farmer
    florist gardener geologist glazier goldsmith interpreter journalist judge lawyer librarian locksmith mason
    midwife miner notary nurse optician painter pharmacist physicist pilot plumber potter printer roofer sailor
    sculptor shepherd surgeon surveyor tailor teacher translator upholsterer veterinarian watchmaker weaver
    welder zoologist
    """
)
JOB_KINDS = ("junior", "senior", "retired", "freelance", "assistant", "chief", "travelling")
LANGUAGES = listed(
    """
    Albanian Amharic Arabic Armenian Basque Bengali Breton Bulgarian Catalan Croatian Czech Danish Dutch
    Estonian Finnish Flemish French Galician Georgian German Greek Gujarati Hausa Hebrew Hindi Hungarian
    Icelandic Igbo Irish Italian Japanese Kazakh Khmer Korean Latvian Lithuanian Malay Maltese Mandarin Maori
    Mongolian Nepali Norwegian Persian Polish Portuguese Punjabi Quechua Romanian Russian Samoan Serbian Slovak
    Slovene Somali Spanish Swahili Swedish Tagalog Tamil Thai Tibetan Turkish Ukrainian Urdu Uzbek Vietnamese
    Welsh Xhosa Yoruba Zulu
    """
)
MATERIALS = listed(
    """
    aluminium bamboo basalt birch brass brick bronze cedar clay copper cork ebony flax glass granite graphite
    hemp iron larch leather limestone linen mahogany marble nickel nylon oak pine porcelain sandstone silk slate
    steel teak tin titanium walnut wool zinc
    """
)
GOODS = listed(
    """
    bicycles, ceiling fans, clay tiles, fishing nets, glass bottles, hiking boots, kitchen knives, paper bags,
    pocket watches, raincoats, rowing boats, school desks, sewing machines, ski bindings, solar panels, tea
    kettles, telescopes, umbrellas, violin strings, water pumps, wax candles, wind turbines, window frames,
    wooden toys, wool blankets, garden chairs, hearing aids, brass bells, printing ink, sailcloth, cheese
    wheels, rye flour, smoked fish, dried apricots
    """,
    separator=",",
)
GOODS_KINDS = ("small", "folding", "handmade", "cheap", "custom", "refurbished", "heavy-duty", "export")
HOBBIES = listed(
    """
    archery, astronomy, badminton, beekeeping, bird watching, bookbinding, calligraphy, canoeing, chess,
    climbing, crochet, cycling, diving, embroidery, falconry, fencing, fishing, gardening, gliding, hiking,
    juggling, kayaking, knitting, origami, orienteering, painting, photography, pottery, rowing, sailing,
    skating, skiing, snorkelling, stamp collecting, surfing, swimming, table tennis, tap dancing, whittling,
    woodcarving, yoga
    """,
    separator=",",
)
ALLERGENS = listed(
    """
    almonds, bee stings, buckwheat, cashews, cat hair, celery, clams, dust mites, eggs, feathers, grass pollen,
    hazelnuts, house dust, kiwi fruit, latex, lupin, milk, mustard, nickel, oysters, peaches, peanuts,
    penicillin, pistachios, prawns, ragweed, rye, sesame, shellfish, soya, strawberries, sulphites, walnuts,
    wasp stings, wheat, birch pollen
    """,
    separator=",",
)
FLOWERS = listed(
    """
    anemone aster begonia bluebell camellia carnation chrysanthemum clover columbine cornflower crocus cyclamen
    daffodil dahlia daisy foxglove freesia gentian geranium gladiolus heather hibiscus hyacinth iris jasmine
    larkspur lily lotus lupin magnolia marigold orchid pansy peony petunia poppy primrose rose snowdrop
    sunflower thistle tulip verbena violet wisteria zinnia
    """
)
FIELDS = listed(
    """
    acoustics, algebra, anatomy, archaeology, astronomy, bookkeeping, botany, cartography, ceramics,
    crystallography, drama, ecology, economics, entomology, forestry, genetics, geology, geometry, glaciology,
    hydrology, law, linguistics, logic, medieval history, metallurgy, meteorology, music theory, nursing,
    optics, philosophy, robotics, sculpture, sociology, soil science, statistics, topology, toxicology,
    veterinary medicine, virology, zoology
    """,
    separator=",",
)
TOOLS = listed(
    """
    Ada Bash Clojure COBOL Crystal Dart Elixir Elm Erlang Forth Fortran Go Groovy Haskell Java Julia Kotlin Lisp
    Lua MATLAB Nim OCaml Pascal Perl PHP Prolog Python R Racket Ruby Rust Scala Scheme Smalltalk Swift
    TypeScript Zig
    """
)
PET_NAMES = listed(
    """
    Biscuit Bramble Button Captain Cinder Clover Cookie Domino Dumpling Echo Fidget Ginger Goblin Hobbes Inky
    Jelly Juno Kiwi Lentil Lulu Maple Marble Misty Mochi Moss Nacho Noodle Nutmeg Olive Pancake Pepper Pickle
    Pixel Plum Poppy Pudding Quark Radish Rocket Rusty Saffron Socks Spud Tango Teapot Toffee Truffle Tuxedo
    Waffle Ziggy
    """
)
BREEDS = ("young", "elderly", "three-legged", "tame", "rescued", "one-eyed")
REASONS = listed(
    """
    a burst pipe, a broken crane, a lost permit, a power cut, a rail strike, a flooded cellar, a software bug, a
    gas leak, heavy snow, a missing signature, a cracked beam, a customs delay, a staff shortage, a fallen tree,
    a faulty valve, a cable theft, thick fog, a bird's nest, a sick pilot, a paper jam, a failed audit, a virus
    outbreak, a late shipment, a leaking roof, a damaged bridge, a wasp nest, a lapsed licence, a dead battery,
    a mislabelled crate, a jammed gate
    """,
    separator=",",
)
CITIES = listed(
    """
    Aarhus, Accra, Adelaide, Alicante, Antwerp, Athens, Auckland, Baku, Bangalore, Barcelona, Basel, Belfast, Bergen,
    Berlin, Bern, Bilbao, Bologna, Bordeaux, Boston, Bremen, Brno, Bruges, Bucharest, Budapest, Cairo, Calgary, Cape
    Town, Cardiff, Chicago, Cologne, Copenhagen, Cork, Dakar, Delft, Denver, Dresden, Dublin, Edinburgh, Florence,
    Galway, Gdansk, Geneva, Genoa, Glasgow, Graz, Hamburg, Hanoi, Helsinki, Houston, Istanbul, Jakarta, Kampala,
    Krakow, Kyoto, Lagos, Leipzig, Lille, Lima, Lisbon, Liverpool, Lyon, Madrid, Malaga, Malmo, Manila, Marseille,
    Melbourne, Milan, Montreal, Munich, Nairobi, Nantes, Naples, Osaka, Oslo, Oxford, Palermo, Perth, Prague, Quito,
    Riga, Rome, Rotterdam, Salzburg, Santiago, Seattle, Seoul, Seville, Sheffield, Sofia, Stockholm, Tallinn, Tampere,
    Tbilisi, Toronto, Trieste, Turin, Utrecht, Valencia, Vienna, Vilnius, Warsaw, York, Zagreb, Zurich
    """,
    separator=",",
)
INGREDIENTS = listed(
    """
    anchovies, aubergines, beetroot, blue cheese, broccoli, brussels sprouts, cabbage, celery, chillies, coconut,
    coriander, cucumber, fennel, garlic, ginger, goat cheese, grapefruit, kale, lentils, liquorice, liver, marzipan,
    mushrooms, mustard, okra, olives, onions, oysters, peas, pickles, pineapple, radishes, raisins, rhubarb, sardines,
    seaweed, spinach, tofu, tripe, turnips
    """,
    separator=",",
)
MANNERS = listed(
    """
    black, very strong, weak, iced, with honey, with lemon, with milk, with oat milk, with one sugar, with two sugars,
    with ginger, with mint, without milk, without anything
    """,
    separator=",",
)
CARS = listed(
    """
    Audi, Citroen, Dacia, Ford, Honda, Hyundai, Jeep, Kia, Lancia, Mazda, Mini, Nissan, Opel, Peugeot, Renault, Saab,
    Seat, Skoda, Subaru, Suzuki, Tesla, Toyota, Volkswagen, Volvo
    """,
    separator=",",
)
